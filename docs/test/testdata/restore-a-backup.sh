. ./server.sh
plants=2 backup=monday.db
. ./backups.sh
echo '{"id": 3, "name": "Plant 3"}' |
	runuser -u plantstore -- plantstore import - --format jsonl --config /etc/plantstore/plantstore.yaml
