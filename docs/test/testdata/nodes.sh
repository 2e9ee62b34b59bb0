# Runs machines with these names, which have PostgreSQL, as hosts of a network; the reader may log in as root:
# nodes NAME…, with the addresses 10.77.0.1, 10.77.0.2 and so on. This machine is 10.77.0.254. Each node has its own
# process numbers, systemd, network, and directories: those below, and those in own_more.
own="/run /tmp /etc/systemd/system /etc/patroni /var/lib/postgresql /root /home ${own_more:-}"

cat > /etc/systemd/system/node.target <<UNIT
[Unit]
DefaultDependencies=no
Wants=systemd-journald.service systemd-journald.socket ssh.service
UNIT

cat > /run/node.sh <<SCRIPT
# Becomes the systemd of a node: node.sh NAME
set -e
mount --make-rprivate /
cp -r /root/.ssh /dev/shm/ssh-\$1
cp -a /etc/systemd/system /dev/shm/system-\$1
for dir in $own; do mkdir -p \$dir; mount -t tmpfs tmpfs \$dir; done
chmod 1777 /tmp
chmod 700 /root
mv /dev/shm/ssh-\$1 /root/.ssh
cp -a /dev/shm/system-\$1/. /etc/systemd/system
if getent passwd postgres > /dev/null; then
	chown postgres: /var/lib/postgresql
	install -d -m 2775 -o postgres -g postgres /run/postgresql
fi
mount -t proc proc /proc
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname \$1
echo \$1 > /run/hostname
mount --bind /run/hostname /etc/hostname
exec env -i container=node PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=node.target --show-status=no \
	--log-target=journal
SCRIPT

# hub makes the network, which a set-up script may need earlier.
hub() {
	ip link add hub type bridge
	ip address add 10.77.0.254/24 dev hub
	ip link set hub up
}

nodes() {
	rm -rf /etc/postgresql/*
	ssh-keygen -A > /dev/null
	install -d -m 700 /root/.ssh
	install -d -m 700 -o reader -g reader /home/reader/.ssh
	runuser -u reader -- ssh-keygen -q -t ed25519 -N '' -f /home/reader/.ssh/id_ed25519
	cp /home/reader/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
	ip link show hub > /dev/null 2>&1 || hub
	i=0
	for node in "$@"; do
		i=$((i + 1))
		ip netns add "$node"
		ip link add "to-node$i" type veth peer name eth0 netns "$node"
		ip link set "to-node$i" master hub up
		ip -n "$node" address add "10.77.0.$i/24" dev eth0
		ip -n "$node" link set lo up
		ip -n "$node" link set eth0 up
		echo "10.77.0.$i $node" >> /etc/hosts
		echo "$node $(cut -d ' ' -f 1-2 /etc/ssh/ssh_host_ed25519_key.pub)" >> /home/reader/.ssh/known_hosts
		mkdir "/sys/fs/cgroup/node$i"
		(
			echo "$BASHPID" > "/sys/fs/cgroup/node$i/cgroup.procs"
			exec ip netns exec "$node" unshare --mount --pid --uts --ipc --cgroup --fork bash /run/node.sh "$node"
		) < /dev/null > "/run/$node.log" 2>&1 &
	done
	chown reader: /home/reader/.ssh/known_hosts
	for node in "$@"; do
		for _ in $(seq 600); do
			runuser -u reader -- ssh "root@$node" true 2> /dev/null && break
			sleep 0.1
		done
		runuser -u reader -- ssh "root@$node" true || { cat "/run/$node.log"; return 1; }
	done
}
