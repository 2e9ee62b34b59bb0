. ./server.sh
/home/reader/plantstore/tools/shared-files.sh /usr/share/plantstore
block back-up-on-a-schedule.md /etc/systemd/system/plantstore.service.d/backup.conf
install -d -m 700 -o plantstore -g plantstore /mnt/backup/plants
echo 'backup-dir: /mnt/backup/plants' >> /etc/plantstore/plantstore.yaml
systemctl daemon-reload
systemctl restart plantstore
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
