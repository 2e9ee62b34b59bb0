# The checkout belongs to the reader.
chown -R reader: /home/reader/plantstore/deploy/compose/secrets
