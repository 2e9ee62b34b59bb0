#!/bin/sh
# Prints how much of internal/ the last test run covered, and fails if it is less than so many per cent: coverage.sh 90.0
set -eu
cd "$(dirname "$0")/.."
total=$(go tool cover -func=coverage.out | sed -n 's/^total:.*[[:space:]]\([0-9.]*\)%$/\1/p')
printf 'coverage of internal/: %s%%, at least %s%% wanted\n' "$total" "$1"
awk -v total="$total" -v min="$1" 'BEGIN { exit !(total != "" && total + 0 >= min + 0) }'
