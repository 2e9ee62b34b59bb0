. ./runbook.sh
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 -subj /CN=plants.example \
	-addext subjectAltName=DNS:plants.example -keyout /etc/ssl/private/plants.key -out /etc/ssl/plants.pem 2> /dev/null
install -d -m 755 /etc/plantstore
install -m 600 -o plantstore -g plantstore /etc/ssl/private/plants.key /etc/plantstore/key.pem
install -m 644 /etc/ssl/plants.pem /etc/plantstore/cert.pem
printf '%s\n' 'tls-cert: /etc/plantstore/cert.pem' 'tls-key: /etc/plantstore/key.pem' | restart
openssl ecparam -genkey -name prime256v1 -noout -out /etc/plantstore/key.pem
until_logged 'could not load the new TLS certificate'
