#!/bin/sh
# Runs each fuzz target in turn for the given time: fuzz.sh 60s
set -eu
cd "$(dirname "$0")/.."
targets=$(go list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' ./... |
	while read -r package file; do
		[ -z "$file" ] || sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
	done)
[ -n "$targets" ] || { printf 'fuzz: found no fuzz target\n' >&2; exit 1; }
printf '%s\n' "$targets" | while read -r package target; do
	printf 'fuzz: %s in %s for %s\n' "$target" "$package" "$1"
	go test -run='^$' -fuzz="^$target\$" -fuzztime="$1" "$package" </dev/null
done
