. ./server.sh
systemctl stop plantstore
rm /var/lib/plantstore/plantstore.db*
sqlite3 /var/lib/plantstore/plantstore.db < /home/reader/plantstore/internal/sqlite/testdata/schema1.sql > /dev/null
chown plantstore: /var/lib/plantstore/plantstore.db
chmod 600 /var/lib/plantstore/plantstore.db
cp /usr/local/bin/plantstore /home/reader/plantstore-new
