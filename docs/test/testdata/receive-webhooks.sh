. ./server.sh
