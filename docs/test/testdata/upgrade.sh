. ./server.sh
seq 1 3 | sed 's/.*/{"id": &, "name": "Plant &"}/' |
	runuser -u plantstore -- plantstore import - --format jsonl
cp /usr/local/bin/plantstore /home/reader/plantstore-new
