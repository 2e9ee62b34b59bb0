. ./runbook.sh
install -d -m 700 -o plantstore -g plantstore /mnt/backup/plants /srv/other
install -d /etc/systemd/system/plantstore.service.d
block back-up-on-a-schedule.md /etc/systemd/system/plantstore.service.d/backup.conf
systemctl daemon-reload
systemctl stop plantstore
mv /var/lib/plantstore/plantstore.db* /srv/other
systemd-run --quiet --unit other --uid plantstore plantstore serve --db /srv/other/plantstore.db --backup-dir /mnt/backup/plants \
	--listen 127.0.0.1:8090 --admin-listen 127.0.0.1:8091
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8091/readyz
printf 'backup-dir: /mnt/backup/plants\nstandby: true\n' >> /etc/plantstore/plantstore.yaml
systemctl start plantstore
until_logged "ready as a standby"
mv /mnt/backup/plants /mnt/backup/away
until_logged "cannot follow the owner"
