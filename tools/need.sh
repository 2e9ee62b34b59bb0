#!/bin/sh
# Checks for Go and installs the Debian packages that the tests need: need.sh PACKAGE…
#
# It installs packages as root, or with a sudo that requires no password. It names the packages that it cannot install; under
# CI=true that is an error, elsewhere the tests run without them.
set -eu
cd "$(dirname "$0")/.."

report() { printf 'need: %s\n' "$*" >&2; }

wanted=$(sed -n 's/^go //p' go.mod)
if ! command -v go >/dev/null; then
	report "no go command on the PATH: install Go $wanted or newer"
	exit 1
fi
found=$(go env GOVERSION | sed 's/^devel //; s/^go//; s/[- ].*//')
if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ]; then
	report "Go $found is too old: install Go $wanted or newer"
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
	report "installing$lacking"
	# Each name is a word of its own. The package lists of a fresh machine are empty: fetch them only if the install fails.
	# shellcheck disable=SC2086
	apt install --no-install-recommends $lacking || { apt update && apt install --no-install-recommends $lacking; } || true
	lacking=$(missing "$@")
fi

incomplete=
if [ -n "$lacking" ]; then
	report "cannot install these missing packages; install them as root:$lacking"
	incomplete=yes
fi
if ! tools/race.sh; then
	report "no C compiler that can link: the tests run WITHOUT THE RACE DETECTOR; on Debian, install $*"
	incomplete=yes
fi
if [ -n "$incomplete" ]; then
	if [ "${CI:-}" = true ]; then
		report "CI is true: a missing part is an error"
		exit 1
	fi
	report "continuing without them"
fi
