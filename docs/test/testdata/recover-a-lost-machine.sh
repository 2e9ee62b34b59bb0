# A machine without a store, the destination of the lost one, and that one: it lives on, and a client creates plants there.
. ./copied.sh
systemctl stop plantstore
cp --archive /var/lib/plantstore /srv/old
rm -r /var/lib/plantstore
install -d -m 700 -o plantstore -g plantstore /var/lib/plantstore
systemd-run --quiet --unit old --uid plantstore plantstore serve --db /srv/old/plantstore.db \
	--listen 127.0.0.1:9080 --admin-listen 127.0.0.1:9081 --backup-dir /mnt/backup/plants \
	--take-over "$(jq --raw-output .timeline /mnt/backup/plants/plantstore.owner)" # of the copied file
systemd-run --quiet --unit client bash -c '
	for ((id = 10; ; id++)); do
		curl --silent --header "Authorization: Bearer $(cat /home/reader/web-shop.token)" --json "{\"id\": $id, \"name\": \"Plant $id\"}" \
			http://127.0.0.1:9080/plants
		sleep 0.1
	done'
