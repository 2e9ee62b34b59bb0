. ./runbook.sh
mkdir -p /mnt/backup/plants
mount -t tmpfs -o size=1m tmpfs /mnt/backup/plants
install -d -m 700 -o plantstore -g plantstore /mnt/backup/plants
install -d /etc/systemd/system/plantstore.service.d
block back-up-on-a-schedule.md /etc/systemd/system/plantstore.service.d/backup.conf
systemctl daemon-reload
echo 'backup-dir: /mnt/backup/plants' | restart
until_logged "backup made"
dd if=/dev/zero of=/mnt/backup/plants/other bs=4k status=none || true
create 1
until_logged "could not copy commits"
