#!/bin/sh
# Sees to what the tests need: need.sh PACKAGE…
#
# Go must be there and new enough. Debian packages that are missing are installed, if this may be done without asking.
# What stays missing is named; under CI=true that ends the gate, elsewhere the tests go on without it.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'need: %s\n' "$*" >&2; }

wanted=$(sed -n 's/^go //p' go.mod)
if ! command -v go >/dev/null; then
	say "there is no go on the PATH: install Go $wanted or newer"
	exit 1
fi
found=$(go env GOVERSION | sed 's/^devel //; s/^go//; s/[- ].*//')
if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ]; then
	say "this is Go $found: install Go $wanted or newer"
	exit 1
fi

missing() {
	command -v dpkg-query >/dev/null || return 0
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf ' %s' "$package"
	done
}

if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	as_root='sudo -n'
else
	as_root=no
fi
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2
}

lacking=$(missing "$@")
if [ -n "$lacking" ] && [ "$as_root" != no ] && command -v apt-get >/dev/null; then
	say "installing$lacking"
	# The names are separate words. The lists of a fresh machine are empty: fetch them only if the install fails.
	# shellcheck disable=SC2086
	apt install --no-install-recommends $lacking || { apt update && apt install --no-install-recommends $lacking; } || true
	lacking=$(missing "$@")
fi

incomplete=
if [ -n "$lacking" ]; then
	say "missing, and not to be installed from here:$lacking"
	incomplete=yes
fi
if ! tools/race.sh; then
	say "no C compiler that can link: the tests would run WITHOUT THE RACE DETECTOR (on Debian: $*)"
	incomplete=yes
fi
if [ -n "$incomplete" ]; then
	if [ "${CI:-}" = true ]; then
		say "CI is true: this gate does not pass with less"
		exit 1
	fi
	say "going on without"
fi
