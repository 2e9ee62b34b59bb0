. ./server.sh
plants=1 backup=plantstore-20260303T120000Z.db
. ./backups.sh
# The other machine is this one: its own root and its own directories.
echo '127.0.0.1 backup.example' >> /etc/hosts
mkdir -p /run/sshd
ssh-keygen -A
/usr/sbin/sshd
install -d -m 700 /root/.ssh
install -d -m 700 -o reader -g reader /home/reader/.ssh
runuser -u reader -- ssh-keygen -q -t ed25519 -N '' -f /home/reader/.ssh/id_ed25519
cp /home/reader/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
ssh-keyscan -t ed25519 backup.example > /home/reader/.ssh/known_hosts
chown reader: /home/reader/.ssh/known_hosts
