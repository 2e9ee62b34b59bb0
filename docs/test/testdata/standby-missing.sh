. ./runbook-postgresql.sh
