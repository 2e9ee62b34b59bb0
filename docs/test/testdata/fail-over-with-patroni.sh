. ./server.sh
systemctl stop plantstore
. ./nodes.sh
nodes db1.example db2.example db3.example
echo '10.77.0.254 etcd.example' >> /etc/hosts
cat > /etc/systemd/system/etcd-one.service <<'UNIT'
[Service]
ExecStart=/usr/bin/etcd --enable-v2 --data-dir /run/etcd --log-level error --listen-client-urls http://10.77.0.254:2379 \
	--advertise-client-urls http://etcd.example:2379
UNIT
systemctl start etcd-one
