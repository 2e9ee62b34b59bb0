. ./runbook.sh
runuser -u plantstore -- plantstore token create greenhouse --create --expires 3d --output /dev/null
