. ./runbook.sh
echo 'log-level: loud' >> /etc/plantstore/plantstore.yaml
systemctl restart plantstore || true
until_logged loud
