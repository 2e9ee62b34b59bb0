# Runs PostgreSQL on this machine, as Debian sets it up. Other scripts source it.
rm -rf /etc/postgresql/* /var/lib/postgresql/*
install -d -m 2775 -o postgres -g postgres /run/postgresql
version=$(ls /usr/lib/postgresql | sort -n | tail -n 1)
pg_createcluster "$version" main --port 5432 --start -- --data-checksums
