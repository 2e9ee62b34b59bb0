# Two machines with a server that doesn't run, and a bucket on this one.
own_more='/etc/plantstore /var/lib/plantstore'
. ./nodes.sh
hub
s3=10.77.0.254
. ./back-up-to-a-bucket.sh
systemctl stop plantstore
block back-up-to-a-bucket.md /etc/systemd/system/plantstore.service.d/bucket.conf
cat > /etc/plantstore.keys <<'END'
AWS_ACCESS_KEY_ID=AKIANURSERY
AWS_SECRET_ACCESS_KEY=correct-horse
AWS_ENDPOINT_URL=https://s3.example
AWS_CA_BUNDLE=/etc/ssl/private-ca.pem
END
chmod 600 /etc/plantstore.keys
rm /home/reader/web-shop.token
nodes plants1.example plants2.example
for node in plants1.example plants2.example; do
	runuser -u reader -- ssh "root@$node" 'chown plantstore: /var/lib/plantstore; chmod 700 /var/lib/plantstore'
done
