. ./runbook.sh
