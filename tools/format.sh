#!/bin/sh
# Fails with the names of the Go files that gofumpt would change.
set -eu
cd "$(dirname "$0")/.."
files=$(go tool -modfile=tools/go.mod gofumpt -l .)
if [ -n "$files" ]; then
	printf 'these files are not formatted; run make fmt:\n%s\n' "$files" >&2
	exit 1
fi
