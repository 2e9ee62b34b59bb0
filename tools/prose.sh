#!/bin/sh
# Checks the language of the Markdown pages and of the comments in Go files with vale, and fails on its errors:
# prose.sh error|warning, the lowest level that is shown.
set -eu
cd "$(dirname "$0")/.."
go tool -modfile=tools/vale.mod vale --minAlertLevel="$1" --output=line .
