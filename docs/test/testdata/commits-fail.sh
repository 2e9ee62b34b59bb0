# The store has a file system of 4 MiB, which a file fills.
mkdir -p /var/lib/plantstore
mount -t tmpfs -o size=4m tmpfs /var/lib/plantstore
. ./runbook.sh
cat /dev/zero > /var/lib/plantstore/old-export.jsonl || true
create 1
until_logged "store accepts no plants"
