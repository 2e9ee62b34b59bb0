. ./server.sh
echo '127.0.0.1 plants.example' >> /etc/hosts
