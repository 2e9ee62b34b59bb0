. ./runbook.sh
printf '%s\n' 'oidc-issuer: http://127.0.0.1:1' 'oidc-audience: plants' | restart
until_logged 'could not fetch the keys'
