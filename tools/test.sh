#!/bin/sh
# Runs every test and writes to coverage.out which statements of internal/ were run by any of them, or by a program that one
# of them started from its own binary.
set -eu
cd "$(dirname "$0")/.."

if tools/race.sh; then
	race=-race
	export CGO_ENABLED=1
else
	race=
	printf 'test: WITHOUT THE RACE DETECTOR\n' >&2
fi

# storetest is a suite of tests that happens to be a package: what counts is what it covers.
covered=$(go list ./internal/... | grep -v '/storetest$' | paste -s -d , -)

# The race detector sleeps for a second when a program ends, unless told otherwise.
export GORACE="${GORACE:-atexit_sleep_ms=10}"

go test $race -count=1 -shuffle=on -timeout=20m \
	-covermode=atomic -coverpkg="$covered" -coverprofile=coverage.out ./...
