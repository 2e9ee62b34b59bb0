. ./server.sh
for plant in '"id": 1, "name": "Rosa canina"' '"id": 2, "name": "Rosa multiflora"'; do
	curl --silent --fail http://127.0.0.1:8080/plants -H "Authorization: Bearer $(cat /home/reader/web-shop.token)" \
		-H 'Content-Type: application/json' -d "{$plant, \"tag\": \"wrong\"}"
done
