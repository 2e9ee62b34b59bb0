. ./server.sh
cp --archive /home/reader/web-shop.token /home/reader/found.token
cp --archive /home/reader/web-shop.token /home/reader/leaked.token
curl --silent --fail http://127.0.0.1:8080/plants -H "Authorization: Bearer $(cat /home/reader/web-shop.token)" \
	-H 'Content-Type: application/json' -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'
