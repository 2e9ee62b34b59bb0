. ./server.sh
ip address add 10.20.0.7/24 dev lo
echo 10.20.0.7 plants.office.example >> /etc/hosts
