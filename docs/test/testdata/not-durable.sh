. ./runbook-postgresql.sh
runuser -u postgres -- psql --quiet --command 'ALTER SYSTEM SET fsync = off' --command 'SELECT pg_reload_conf()'
restart < /dev/null
