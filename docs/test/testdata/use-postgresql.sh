. ./server.sh
systemctl stop plantstore
. ./database.sh
tables
rm roles.sql grants.sql
