. ./server.sh
plants=1000 backup=before.db
. ./backups.sh
. ./database.sh
