. ./runbook.sh
systemctl kill --signal KILL plantstore
until_logged 'Main process exited'
curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8081/readyz
