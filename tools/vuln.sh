#!/bin/sh
# Searches the program for known vulnerabilities: vuln.sh [required].
#
# VULNDB names the database: a URL, or the path or file:// URL of a copy, which is a directory or a .tar.gz file. By default
# it is ../shared/vulndb.tar.gz if that file exists, otherwise the database of the Go project.
#
# Without "required", a database that cannot be reached is reported and does not fail the check: the verdict on a change
# must not depend on a host on the internet.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

beside=$PWD/../shared/vulndb.tar.gz
if [ -z "${VULNDB:-}" ] && [ -f "$beside" ]; then
	VULNDB=$beside
fi
case ${VULNDB:-} in
*.tar.gz)
	mkdir "$work/database"
	tar -xzf "${VULNDB#file://}" -C "$work/database"
	[ -d "$work/database/index" ] || mv "$work"/database/* "$work/copy" # the archive has the directory of the copy
	[ -d "$work/copy" ] || mv "$work/database" "$work/copy"
	VULNDB=file://$work/copy
	;;
/*) VULNDB=file://$VULNDB ;;
esac

# govulncheck reports no vulnerability when a local database does not exist.
case ${VULNDB:-} in
file://*)
	if [ ! -f "${VULNDB#file://}/index/modules.json" ]; then
		printf 'vuln: %s has no index/modules.json: it is not a copy of the database\n' "$VULNDB" >&2
		exit 1
	fi
	;;
esac

output=$work/output
if go tool -modfile=tools/go.mod govulncheck ${VULNDB:+-db "$VULNDB"} ./... >"$output" 2>&1; then
	cat "$output"
	exit
fi
cat "$output" >&2
if [ "${1:-}" != required ] && [ -z "${VULNDB:-}" ] && grep -q '^govulncheck: fetching vulnerabilities: ' "$output"; then
	printf 'vuln: NOT CHECKED: the database could not be reached; VULNDB names a copy\n' >&2
	exit
fi
exit 1
