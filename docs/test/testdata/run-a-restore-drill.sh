. ./server.sh
plants=2 backup=plantstore-20260303T120000Z.db
. ./backups.sh
cp -r /mnt/backup/plants /home/reader/backups
chown -R reader: /home/reader/backups
systemctl stop plantstore
