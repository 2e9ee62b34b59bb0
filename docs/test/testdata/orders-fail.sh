. ./runbook.sh
printf '%s\n' 'acme-domain: localhost' 'acme-email: operator@plants.example' \
	'acme-directory: https://127.0.0.1:1/directory' | restart
until_logged 'certificate order failed'
