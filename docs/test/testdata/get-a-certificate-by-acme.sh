. ./server.sh
printf '127.0.0.1 plants.example\n127.0.0.1 ca.example\n' >> /etc/hosts

# The CA is Pebble. It checks tls-alpn-01 at port 443, and the page receives its root as roots.pem.
go build -C /home/reader/plantstore -modfile=tools/pebble.mod -o /usr/local/bin/pebble \
	github.com/letsencrypt/pebble/v2/cmd/pebble
install -d -m 700 /srv/ca
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=ca.example \
	-addext subjectAltName=DNS:ca.example -keyout /srv/ca/key.pem -out /etc/ssl/private-ca.pem 2> /dev/null
cat > /srv/ca/config.json <<'END'
{"pebble": {
	"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000",
	"certificate": "/etc/ssl/private-ca.pem", "privateKey": "/srv/ca/key.pem",
	"httpPort": 80, "tlsPort": 443, "keyAlgorithm": "ecdsa",
	"profiles": {"default": {"description": "default", "validityPeriod": 7776000}}
}}
END
systemd-run --quiet --unit pebble --setenv PEBBLE_VA_NOSLEEP=1 --setenv PEBBLE_WFE_NONCEREJECT=20 \
	/usr/local/bin/pebble -config /srv/ca/config.json
curl --silent --retry 20 --retry-delay 1 --retry-connrefused --cacert /etc/ssl/private-ca.pem \
	https://ca.example:15000/roots/0 > /home/reader/roots.pem
chown reader: /home/reader/roots.pem
