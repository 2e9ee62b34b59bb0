. ./upgrade-on-postgresql.sh
rm plantstore-new
rm -rf /etc/pgbackrest.conf /var/lib/pgbackrest/*
seq 1 2 | sed 's/.*/{"id": &, "name": "Plant &"}/' |
	sudo -u plantstore plantstore import - --format jsonl
