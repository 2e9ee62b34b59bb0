. ./runbook.sh
runuser -u plantstore -- plantstore token create greenhouse --create --expires 3d --config /etc/plantstore/plantstore.yaml > /dev/null
