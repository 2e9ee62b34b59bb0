. ./server.sh
plants=2 backup=monday.db
. ./backups.sh
seq 3 4 | sed 's/.*/{"id": &, "name": "Plant &"}/' |
	runuser -u plantstore -- plantstore import - --format jsonl
# Damages the row of the plant 4, as a disk does.
systemctl stop plantstore
LC_ALL=C sed -i 's/Plant 4/Plant 5/' /var/lib/plantstore/plantstore.db
systemctl start plantstore
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
