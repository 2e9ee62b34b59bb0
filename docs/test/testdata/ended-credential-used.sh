. ./runbook.sh
secret=$(runuser -u plantstore -- plantstore token create greenhouse)
runuser -u plantstore -- plantstore token revoke greenhouse
curl --silent http://127.0.0.1:8080/plants -H 'Content-Type: application/json' -d '{"id": 1, "name": "Rosa canina"}' \
	-H "Authorization: Bearer $secret"
until_logged credential_id=4
