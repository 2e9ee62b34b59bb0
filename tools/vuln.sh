#!/bin/sh
# Searches the program for known vulnerabilities: vuln.sh [required]. VULNDB is the URL of the database, by default that of
# the Go project.
#
# Without "required", a database that cannot be reached is reported and does not fail the check: the verdict on a change
# must not depend on a host on the internet.
set -eu
cd "$(dirname "$0")/.."

# govulncheck reports no vulnerability when a local database does not exist.
case ${VULNDB:-} in
file://*)
	if [ ! -f "${VULNDB#file://}/index/modules.json" ]; then
		printf 'vuln: %s has no index/modules.json: it is not a copy of the database\n' "$VULNDB" >&2
		exit 1
	fi
	;;
esac

output=$(mktemp)
trap 'rm -f "$output"' EXIT
if go tool -modfile=tools/go.mod govulncheck ${VULNDB:+-db "$VULNDB"} ./... >"$output" 2>&1; then
	cat "$output"
	exit
fi
cat "$output" >&2
if [ "${1:-}" != required ] && [ -z "${VULNDB:-}" ] && grep -q '^govulncheck: fetching vulnerabilities: ' "$output"; then
	printf 'vuln: NOT CHECKED: the database could not be reached; VULNDB=file:///… names a copy\n' >&2
	exit
fi
exit 1
