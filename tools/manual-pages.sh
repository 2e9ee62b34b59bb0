#!/bin/sh
# Writes the manual pages into a directory: manual-pages.sh DIRECTORY. TestManual writes them from the commands, the table of settings
# and docs/reference/settings.md; they depend only on the sources.
set -eu
[ $# = 1 ] || {
	echo 'manual-pages.sh: name the directory of the pages' >&2
	exit 2
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
env -u GOOS -u GOARCH go test -count=1 -vet=off -run='^TestManual$' ./cmd/plantstore -args -manual="$out" >&2
