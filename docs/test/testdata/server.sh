# Runs a server as on the page run-under-systemd.md, with a token in web-shop.token of the reader. Other scripts source it.

# block prints the file of that path on the page.
block() {
	awk -v open="file=$1" '$0 ~ "^```.*" open "$" {found = 1; next} /^```/ {found = 0} found' \
		/home/reader/plantstore/docs/how-to/run-under-systemd.md
}

useradd --system --user-group --no-create-home --home-dir /var/lib/plantstore --shell /usr/sbin/nologin plantstore
install -d -m 700 -o plantstore -g plantstore /var/lib/plantstore
block /etc/plantstore.yaml > /etc/plantstore.yaml
block /etc/systemd/system/plantstore.service > /etc/systemd/system/plantstore.service
runuser -u plantstore -- plantstore token create web-shop --create --expires 90d \
	--db /var/lib/plantstore/plantstore.db > /home/reader/web-shop.token
chown reader: /home/reader/web-shop.token
chmod 600 /home/reader/web-shop.token
systemctl daemon-reload
systemctl start plantstore
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
