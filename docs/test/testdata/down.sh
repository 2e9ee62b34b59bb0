. ./runbook.sh
echo 'log-level: loud' >> /etc/plantstore.yaml
systemctl restart plantstore || true
until_logged loud
