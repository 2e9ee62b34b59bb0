#!/bin/sh
# Runs every test in its short form, in a random order, with the race detector where a C compiler can link it.
set -eu
cd "$(dirname "$0")/.."

race=
if tools/race.sh; then
	race=-race
	export CGO_ENABLED=1
fi

# By default, the race detector sleeps for a second when a program ends.
export GORACE="${GORACE:-atexit_sleep_ms=10}"

go test $race -short -count=1 -shuffle=on -timeout=20m ./...
