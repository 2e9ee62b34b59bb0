. ./server.sh
plants=3 backup=upgrade.db
. ./backups.sh
mv /mnt/backup/plants /var/lib/plantstore/before
echo '{"id": 4, "name": "Plant 4"}' |
	runuser -u plantstore -- plantstore import - --format jsonl
cp /usr/local/bin/plantstore /home/reader/plantstore-old
