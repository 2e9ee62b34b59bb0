#!/bin/sh
# Lints modules: lint.sh DIRECTORY…
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/tools/go.mod
for module in "$@"; do
	(
		cd "$module"
		go mod tidy -diff
		# Go cannot verify a module that a directory of ours stands for.
		grep -q '^replace' go.mod || go mod verify
		go vet ./...
		go tool -modfile="$tools" golangci-lint run
	)
done
