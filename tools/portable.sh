#!/bin/sh
# Checks that the module compiles with its tests on other systems, and prints the packages that are tested on Windows:
# portable.sh [windows]. It needs no such system.
set -eu
cd "$(dirname "$0")/.."

# The tests of these packages need no other program and no system call of Unix.
windows='./client ./internal/audit ./internal/auth ./internal/dump ./internal/limit ./internal/plant'
if [ "${1:-}" = windows ]; then
	printf '%s\n' "$windows"
	exit
fi
GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
# shellcheck disable=SC2086 # a list
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go vet $windows
