#!/bin/sh
# Runs every test in its short form, in a random order, with the race detector where a C compiler can link it.
set -eu
cd "$(dirname "$0")/.."

# SQLite is C code that was translated into one Go package. The race detector would make it five times slower, and its races
# are not of this project: the package runs without it.
#
# The programs that tests build get the same flags, so that no package is compiled twice.
if tools/can-race.sh; then
	export GOFLAGS="${GOFLAGS:-} -race -gcflags=modernc.org/sqlite/lib=-race=false" CGO_ENABLED=1
fi

# By default, the race detector sleeps for a second when a program ends.
export GORACE="${GORACE:-atexit_sleep_ms=10}"

# make check runs go vet with all its analyzers.
go test -vet=off -short -count=1 -shuffle=on -parallel=4 -timeout=20m ./...
