#!/bin/sh
# Runs fault harnesses of faults/ in turn: faults.sh gate|short|long [HARNESS…]. The form gate has the harnesses of durability, each
# with its controls and fewer faults.
set -eu
cd "$(dirname "$0")/../faults"

run() {
	package=$1
	shift
	printf 'faults: %s %s\n' "$package" "$*" >&2
	go test -count=1 -timeout="$timeout" "./$package" -args "$@"
}
form=$1
shift
case $form in
gate)
	timeout=15m
	# Each call fails once. The short form also has the second, third and all calls.
	calls='(pwrite64|fsync|fdatasync)/EIO/(wal|db|mark)//^1$'
	run failpoints -test.run "^Test(Control|Commands)$|^TestServer$/30$"
	run history -seeds 1 -ops 3000 -kills 5
	run power -test.skip '^TestCopies' -images 12
	run syscalls -test.run "^Test(Accept|NoAcknowledgementWithoutSync|NoReplayWithoutSync|NoStartWithoutSync|Control|Unready)$|^TestServer$/$calls|^TestCommand$//$calls"
	;;
short)
	timeout=15m
	for package in ${*:-dialect failpoints copies standby disk overload history syscalls power replicas webhooks soak tls}; do
		run "$package"
	done
	;;
long)
	timeout=24h
	for package in failpoints copies standby disk overload syscalls power replicas webhooks failover soak tls; do
		run "$package" -long
	done
	run dialect
	run history -test.run TestHistory -seeds 100 -ops 100000
	run history -test.run TestHistory -seeds 1 -ops 200000 -kills 2000
	;;
esac
