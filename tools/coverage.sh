#!/bin/sh
# Prints the coverage of the last test run, and fails if it is below a minimum in per cent: coverage.sh 90.0
set -eu
cd "$(dirname "$0")/.."
total=$(go tool cover -func=coverage.out | sed -n 's/^total:.*[[:space:]]\([0-9.]*\)%$/\1/p')
printf 'coverage of internal/: %s%%; the minimum is %s%%\n' "$total" "$1"
awk -v total="$total" -v min="$1" 'BEGIN { exit !(total != "" && total + 0 >= min + 0) }'
