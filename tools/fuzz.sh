#!/bin/sh
# Runs each fuzz target in turn for the given time, and prints the number of executions: fuzz.sh 10m
#
# The go command keeps an input that fails in testdata/fuzz of the package: commit it with the fix, so that go test runs it.
set -eu
cd "$(dirname "$0")/.."
targets=$(go list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' ./... |
	while read -r package file; do
		[ -z "$file" ] || sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
	done)
[ -n "$targets" ] || { printf 'fuzz: found no fuzz target\n' >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$targets" | while read -r package target; do
	printf 'fuzz: %s in %s for %s\n' "$target" "$package" "$1"
	{ go test -run='^$' -fuzz="^$target\$" -fuzztime="$1" -fuzzminimizetime=200x "$package" </dev/null || touch "$work/failed"; } | tee "$work/output"
	[ ! -e "$work/failed" ] || exit 1
	sed -n 's/.* execs: \([0-9]*\) .*/\1/p' "$work/output" | tail -n 1 >>"$work/executions"
done
awk '{ sum += $1 } END { printf "fuzz: %d executions of %d targets\n", sum, NR }' "$work/executions"
