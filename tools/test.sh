#!/bin/sh
# Runs every test in its short form and writes coverage.out: the statements of internal/ that a test ran, or a program that
# a test started from its own binary.
set -eu
cd "$(dirname "$0")/.."

if tools/race.sh; then
	race=-race
	export CGO_ENABLED=1
else
	race=
	printf 'test: WITHOUT THE RACE DETECTOR\n' >&2
fi

# The statements of the test suite storetest, and of the servers for tests, pebbletest, s3test and browsertest, do not count.
covered=$(go list ./internal/... | grep -v -e '/storetest$' -e '/pebbletest$' -e '/s3test$' -e '/browsertest$' | paste -s -d , -)

# By default, the race detector sleeps for a second when a program ends.
export GORACE="${GORACE:-atexit_sleep_ms=10}"

go test $race -short -count=1 -shuffle=on -timeout=20m \
	-covermode=atomic -coverpkg="$covered" -coverprofile=coverage.out ./...
