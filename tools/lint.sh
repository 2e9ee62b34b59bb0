#!/bin/sh
# Lints the modules in these directories: lint.sh DIRECTORY…
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/tools/go.mod
for module in "$@"; do
	(
		cd "$module"
		go mod tidy -diff
		# Without the option, it fails while another user or checkout of the machine lints.
		go tool -modfile="$tools" golangci-lint run --allow-parallel-runners
	)
done
