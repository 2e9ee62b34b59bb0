. ./runbook.sh
create 1
