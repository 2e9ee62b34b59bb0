# Makes db.example: PostgreSQL on this machine with TLS and the roles of grant-postgresql-rights.md. Other scripts source it
# after server.sh. The reader has the passwords in owner.password and server.password.
. ./postgresql.sh
echo '127.0.0.1 db.example' >> /etc/hosts
cd /home/reader
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=db.example \
	-addext subjectAltName=DNS:db.example -keyout db.key -out /etc/ssl/certs/db-ca.crt
install -m 600 -o postgres db.key /var/lib/postgresql/db.key
rm db.key
database=/etc/postgresql/$version/main
cat >> "$database/postgresql.conf" <<CONF
ssl_cert_file = '/etc/ssl/certs/db-ca.crt'
ssl_key_file = '/var/lib/postgresql/db.key'
CONF
pg_ctlcluster "$version" main restart
block grant-postgresql-rights.md roles.sql grants.sql
runuser -u postgres -- psql --quiet --set ON_ERROR_STOP=1 < roles.sql
for role in owner server; do
	openssl rand -hex 24 > $role.password
	runuser -u postgres -- psql --quiet --command "ALTER ROLE plants_$role PASSWORD '$(cat $role.password)'"
done
chown reader: ./*.password
chmod 600 ./*.password
owner='postgres://plants_owner@db.example/plants?sslmode=verify-full&sslrootcert=/etc/ssl/certs/db-ca.crt'
# tables makes the tables of an empty store, and grants the rights.
tables() {
	export PGPASSWORD
	PGPASSWORD=$(cat owner.password)
	plantstore token create web-shop --create --expires 90d --db "$owner" > web-shop.token
	psql --quiet --set ON_ERROR_STOP=1 "$owner" < grants.sql
}
