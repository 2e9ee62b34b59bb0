#!/bin/sh
# Runs every test in its short form and writes coverage.out: the statements of internal/ that a test ran, or a program that a
# test started from its own binary. Fails if their share is below 90%.
set -eu
cd "$(dirname "$0")/.."
min=90.0

# The statements of the test suite storetest, and of the servers for tests, pebbletest, s3test and browsertest, do not count.
covered=$(go list ./internal/... | grep -v -e '/storetest$' -e '/pebbletest$' -e '/s3test$' -e '/browsertest$' | paste -s -d , -)
go test -short -count=1 -timeout=20m -coverpkg="$covered" -coverprofile=coverage.out ./...
total=$(go tool cover -func=coverage.out | sed -n 's/^total:.*[[:space:]]\([0-9.]*\)%$/\1/p')
printf 'coverage of internal/: %s%%; the minimum is %s%%\n' "$total" "$min"
awk -v total="$total" -v min="$min" 'BEGIN { exit !(total != "" && total + 0 >= min + 0) }'
