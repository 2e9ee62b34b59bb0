# Runs a server and gives it the tokens of monitor-and-alert.md. The scripts of the runbooks source it.
. ./server.sh
install -d /etc/prometheus
runuser -u plantstore -- plantstore token create prometheus --scope metrics --expires 365d \
	--db /var/lib/plantstore/plantstore.db > /etc/prometheus/plantstore.token
runuser -u plantstore -- plantstore token create operator --scope admin --expires 90d \
	--db /var/lib/plantstore/plantstore.db > /home/reader/operator.token
chmod 600 /etc/prometheus/plantstore.token /home/reader/operator.token
chown reader: /home/reader/operator.token

# restart restarts the server with the lines of standard input in its settings.
restart() {
	cat >> /etc/plantstore/plantstore.yaml
	systemctl restart plantstore
	curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
}

# create creates a plant with the id of the argument.
create() {
	curl --silent http://127.0.0.1:8080/plants -H 'Content-Type: application/json' -d "{\"id\": $1, \"name\": \"Rosa canina\"}" \
		-H "Authorization: Bearer $(cat /home/reader/web-shop.token)"
}

# until_logged waits for a text in the log of the server. grep reads all lines, so that no SIGPIPE ends journalctl.
until_logged() {
	until journalctl --unit plantstore --output cat | grep "$1" > /dev/null; do sleep 0.1; done
}
