# It listens at $s3, if that is set.
. ./server.sh
echo "${s3:=127.0.0.1} s3.example" >> /etc/hosts

# The S3 server is versitygw, with a certificate of a private CA.
install "$(cd /home/reader/plantstore && go tool -modfile=tools/versitygw.mod -n versitygw)" /usr/local/bin/versitygw
install -d -m 700 /srv/s3 /srv/s3/buckets /srv/s3/buckets/nursery-backups /srv/s3/metadata
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=s3.example \
	-addext subjectAltName=DNS:s3.example -keyout /srv/s3/key.pem -out /etc/ssl/private-ca.pem 2> /dev/null
systemd-run --quiet --unit versitygw --setenv ROOT_ACCESS_KEY=AKIANURSERY --setenv ROOT_SECRET_KEY=correct-horse \
	/usr/local/bin/versitygw --port "$s3:443" --cert /etc/ssl/private-ca.pem --key /srv/s3/key.pem --health /health \
	posix --sidecar /srv/s3/metadata /srv/s3/buckets
curl --silent --retry 20 --retry-delay 1 --retry-connrefused --cacert /etc/ssl/private-ca.pem \
	https://s3.example/health > /dev/null
