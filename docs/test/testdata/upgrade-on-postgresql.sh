. ./server.sh
systemctl stop plantstore
. ./database.sh
tables
block use-postgresql.md /etc/plantstore/plantstore.yaml
install -m 600 -o plantstore -g plantstore /dev/null /var/lib/plantstore/.pgpass
echo "db.example:5432:plants:plants_server:$(cat server.password)" > /var/lib/plantstore/.pgpass
install -m 600 -o reader -g reader /dev/null .pgpass
echo "db.example:5432:plants:plants_owner:$(cat owner.password)" > .pgpass
cp /usr/local/bin/plantstore plantstore-new
systemctl start plantstore
