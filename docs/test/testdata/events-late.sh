. ./runbook.sh
echo "whsec_$(head --bytes 32 /dev/zero | base64)" > /etc/plantstore.webhook
chmod 600 /etc/plantstore.webhook
chown plantstore: /etc/plantstore.webhook
printf '%s\n' 'webhook-url: http://127.0.0.1:9/events' 'webhook-secret-file: /etc/plantstore.webhook' \
	'webhook-allow-private: true' | restart
create 1
failed() {
	curl --silent http://127.0.0.1:8081/metrics -H "Authorization: Bearer $(cat /etc/prometheus/plantstore.token)" |
		grep '^plantstore_webhook_attempts_total{.*result="failed"} [1-9]' > /dev/null
}
until failed; do sleep 0.1; done
