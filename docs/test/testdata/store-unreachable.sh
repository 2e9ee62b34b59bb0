. ./runbook-postgresql.sh
pg_ctlcluster "$version" main stop
until_logged 'store unreachable'
