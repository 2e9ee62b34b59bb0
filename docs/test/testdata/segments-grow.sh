. ./runbook.sh
install -d -m 700 -o plantstore -g plantstore /mnt/backup/plants
install -d /etc/systemd/system/plantstore.service.d
block back-up-on-a-schedule.md /etc/systemd/system/plantstore.service.d/backup.conf
systemctl daemon-reload
echo 'backup-dir: /mnt/backup/plants' | restart
until_logged "backup made"
echo '{' > /mnt/backup/plants/plantstore.owner
until_logged "could not merge segments"
