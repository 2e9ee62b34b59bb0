#!/bin/sh
# Runs the fault harnesses of faults/ in turn, in their short or their long form: faults.sh short|long
set -eu
cd "$(dirname "$0")/../faults"

run() {
	package=$1
	shift
	printf 'faults: %s %s\n' "$package" "$*" >&2
	go test -count=1 -timeout="$timeout" "./$package" -args "$@"
}
case $1 in
short)
	timeout=15m
	for package in dialect failpoints disk overload history syscalls power replicas webhooks soak tls; do
		run "$package"
	done
	;;
long)
	timeout=24h
	for package in failpoints disk overload syscalls power replicas webhooks failover soak tls; do
		run "$package" -long
	done
	run dialect
	run history -run TestHistory -seeds 100 -ops 100000
	run history -run TestHistory -seeds 1 -ops 200000 -kills 2000
	;;
esac
