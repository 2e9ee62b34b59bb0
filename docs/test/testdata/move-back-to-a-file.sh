. ./server.sh
systemctl stop plantstore
. ./database.sh
tables
rm roles.sql grants.sql
seq 1 1000 | sed 's/.*/{"id": &, "name": "Plant &"}/' | plantstore import - --format jsonl --db "$owner"
install -m 600 -o plantstore -g plantstore /dev/null /var/lib/plantstore/.pgpass
echo "db.example:5432:plants:plants_owner:$PGPASSWORD" > /var/lib/plantstore/.pgpass
