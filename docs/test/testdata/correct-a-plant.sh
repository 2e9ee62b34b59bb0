. ./server.sh
curl --silent --fail http://127.0.0.1:8080/plants -H "Authorization: Bearer $(cat /home/reader/web-shop.token)" \
	-H 'Content-Type: application/json' -d '{"id": 7159, "name": "Acer plantanoides", "tag": "tree"}'
