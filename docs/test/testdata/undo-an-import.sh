# Imports the wrong file into a store whose commits are copied to /mnt/backup/plants.
. ./copied.sh
seq 100 104 | sed 's/.*/{"id": &, "name": "Wrong &"}/' |
	runuser -u plantstore -- plantstore import - --format jsonl
