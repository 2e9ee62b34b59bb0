# Moves the server of runbook.sh to an empty store in PostgreSQL on this machine. Other scripts source it.
. ./runbook.sh
. ./postgresql.sh
runuser -u postgres -- createuser plantstore
runuser -u postgres -- createdb --owner plantstore --encoding UTF8 --locale C --template template0 plants
sed -i "s|^db: .*|db: 'postgres:///plants?host=/run/postgresql\&sslmode=disable'|" /etc/plantstore/plantstore.yaml
restart < /dev/null
runuser -u plantstore -- plantstore token create prometheus --scope metrics --expires 365d \
	> /etc/prometheus/plantstore.token
runuser -u plantstore -- plantstore token create operator --scope admin --expires 90d \
	> /home/reader/operator.token
# The server reads the new tokens with this request; a page may stop the database before the server would read them.
curl --silent --fail --output /dev/null http://127.0.0.1:8081/metrics -H "Authorization: Bearer $(cat /etc/prometheus/plantstore.token)"
