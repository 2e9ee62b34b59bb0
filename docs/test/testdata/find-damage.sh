# The reader's store of 3 plants, a backup of it, and an older one.
cd /home/reader
cat > make.sh <<'SCRIPT'
plantstore token create web-shop --create --no-expiry --output /dev/null
echo '{"id": 1, "name": "Plant 1"}' | plantstore import - --format jsonl
plantstore backup yesterday.db
seq 2 3 | sed 's/.*/{"id": &, "name": "Plant &"}/' | plantstore import - --format jsonl
plantstore backup monday.db
SCRIPT
runuser -u reader -- bash -euo pipefail make.sh
rm make.sh
