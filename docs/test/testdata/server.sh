# Runs a server as on the page run-under-systemd.md, with a token in web-shop.token of the reader. Other scripts source it.

# block writes the files of these paths as they are on a page: block PAGE PATH…
block() {
	page=/home/reader/plantstore/docs/how-to/$1
	shift
	for path in "$@"; do
		install -d "$(dirname "$path")"
		awk -v open="file=$path" '$0 ~ "^```.*" open "$" {found = 1; next} /^```/ {found = 0} found' "$page" > "$path"
		test -s "$path"
	done
}

useradd --system --user-group --no-create-home --home-dir /var/lib/plantstore --shell /usr/sbin/nologin plantstore
install -d -m 700 -o plantstore -g plantstore /var/lib/plantstore
block run-under-systemd.md /etc/plantstore/plantstore.yaml
install -m 644 /home/reader/plantstore/deploy/systemd/plantstore.service /etc/systemd/system/
runuser -u plantstore -- plantstore token create web-shop --create --expires 90d \
	--db /var/lib/plantstore/plantstore.db > /home/reader/web-shop.token
chown reader: /home/reader/web-shop.token
chmod 600 /home/reader/web-shop.token
systemctl daemon-reload
systemctl start plantstore
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
