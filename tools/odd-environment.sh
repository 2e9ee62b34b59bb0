#!/bin/sh
# Runs all tests in an environment that they must not depend on: odd-environment.sh [KIND…]. Without KIND, it combines most kinds. RUN
# is another command to run.
#
# Each function below is a kind and changes one part of the environment. The tests run in their short form, because some long
# forms download programs, which an unreachable proxy prevents.
set -eu
cd "$(dirname "$0")/.."

# The go command keeps the caches that it has without the hostile values.
GOCACHE=$(go env GOCACHE) GOPATH=$(go env GOPATH) GOMODCACHE=$(go env GOMODCACHE)
export GOCACHE GOPATH GOMODCACHE

work=$(mktemp -d)
background=
clean() {
	# shellcheck disable=SC2086 # a list
	[ -z "$background" ] || kill $background
	for pid in $(running); do
		kill -CONT "$pid" 2>/dev/null || true # it may have ended
	done
	chmod -R u+w "$work"
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
terminal=

# running prints the processes of the kind stopped.
running() { grep -lzsx "HOSTILE_RUN=$work" /proc/[0-9]*/environ | cut -d / -f 3; }

# nohup(1), a background job of a shell and some parent processes ignore these signals.
signals() { trap '' HUP INT QUIT PIPE; }

# New files are open to all users unless the test or the program sets their mode.
umask_open() { umask 000; }

# New files are open to their owner only.
umask_closed() { umask 077; }

# In Turkish, I and i are different letters; the other locale does not exist.
locale() { export LC_ALL=tr_TR.UTF-8 LANG=xx_XX.NONE LANGUAGE=de; }

# The date differs from that of UTC for most of the day.
zone() { export TZ=Pacific/Apia; }

home() { export HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent XDG_CACHE_HOME=/nonexistent; }

# The path has a space, a quote, a percent sign and a question mark, is a symbolic link, and is too long for a socket's name.
tmpdir() {
	long="$work/a b'%20?c#d/$(printf '%0100d' 0)"
	mkdir -p "$long"
	chmod 1777 "$long"
	chmod 711 "$work" # a harness mounts a disk there for PostgreSQL's user
	ln -s "$long" "$work/link to it"
	export TMPDIR="$work/link to it/."
}

proxies() {
	for name in http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy; do
		export "$name=http://127.0.0.1:1"
	done
	export NO_PROXY= no_proxy=
}

postgres() {
	export PGHOST=192.0.2.1 PGHOSTADDR=192.0.2.1 PGPORT=1 PGUSER=other PGPASSWORD=wrong PGDATABASE=other PGSSLMODE=verify-full \
		PGOPTIONS='-c search_path=other' PGAPPNAME=other PGSERVICE=other PGSERVICEFILE=/nonexistent PGPASSFILE=/nonexistent \
		PGDATESTYLE=German PGTZ=Pacific/Apia PGCLIENTENCODING=LATIN1 PGTARGETSESSIONATTRS=standby PGDATA=/nonexistent
}

settings() { export PLANTSTORE_DB=/nonexistent/other.db PLANTSTORE_TOKEN=other PLANTSTORE_LISTEN=192.0.2.1:1 PLANTSTORE_OTHER=1; }

# Every process inherits open descriptors and can open few more.
descriptors() {
	exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null
	ulimit -n 4096
}

# Variables that shells read.
shell() { export CDPATH=/:/usr POSIXLY_CORRECT=1 ENV=/nonexistent BASH_ENV=/nonexistent TERM=dumb COLUMNS=1 NO_COLOR=1; }

# All processors are busy, and one process after the other stops for up to two seconds.
stopped() {
	export HOSTILE_RUN="$work"
	for _ in $(seq "$(nproc)"); do
		while :; do :; done &
		background="$background $!"
	done
	while unset HOSTILE_RUN; do # not for its own commands
		pid=$(running | shuf -n 1)
		if [ -n "$pid" ] && kill -STOP "$pid" 2>/dev/null; then
			sleep "$(shuf -n 1 -e 0.1 0.5 1 2)"
			kill -CONT "$pid" 2>/dev/null || true
		fi
		sleep "$(shuf -n 1 -e 0.1 0.5 1)"
	done &
	background="$background $!"
}

# Standard input, output and error are a terminal.
terminal() { terminal=yes; }

kinds=${*:-signals umask_open locale zone home tmpdir proxies postgres settings descriptors shell terminal}
for kind in $kinds; do
	"$kind"
done
printf 'odd-environment: %s\n' "$kinds" >&2

run=${RUN:-'go test -short -count=1 -timeout=20m ./... && cd bench && go test -count=1 ./... && cd .. && tools/faults.sh short'}
if [ "$terminal" ]; then
	script -qec "$run" /dev/null
else
	sh -c "$run"
fi
