. ./server.sh
systemctl stop plantstore
. ./nodes.sh
nodes db1.example db2.example db3.example monitor.example
