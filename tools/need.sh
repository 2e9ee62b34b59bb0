#!/bin/sh
# Checks for Go, and installs the Debian packages that groups of checks need: need.sh GROUP…
#
# It installs packages as root, or with a sudo that requires no password, unless INSTALL=no. Without a package, the checks of its
# group are left out; under CI=true that is an error.
set -eu
cd "$(dirname "$0")/.."

report() { printf 'need: %s\n' "$*" >&2; }

# group sets packages and purpose.
group() {
	case $1 in
	race) packages='gcc libc6-dev' purpose='the race detector, which a C compiler links' ;;
	postgresql) packages='postgresql pgbouncer' purpose='the tests on PostgreSQL, one of the two engines' ;;
	browser) packages=chromium purpose='the tests in a browser' ;;
	faults) packages='strace e2fsprogs util-linux mount' purpose='the fault harnesses, which trace system calls and cut the power of disks' ;;
	readme) packages='curl iproute2 passwd sudo systemd' purpose='the commands of README.md, on a machine of their own' ;;
	pages)
		packages='caddy curl etcd-server haproxy iproute2 jq minisign mypy nginx nodejs openssh-server openssl passwd patroni
			pg-auto-failover-cli pgbackrest postgresql postgresql-15-auto-failover prometheus psmisc python3 python3-etcd rsync sqlite3 sudo systemd'
		purpose='the commands of the pages in docs'
		;;
	npm) # some packages of nodejs have npm in them, and conflict with Debian's npm
		packages=nodejs purpose='the tests with packages of npm'
		command -v npm >/dev/null || packages='nodejs npm'
		;;
	site) packages='hugo curl' purpose='the documentation as static pages' ;;
	release) packages=minisign purpose='the test of signed releases' ;;
	packages) packages='cpio lintian mount rpm rpmlint systemd util-linux' purpose='the tests of the Debian and RPM packages' ;;
	image) packages='crun skopeo iproute2' purpose='the tests of the container image' ;;
	kube) packages='crun iproute2 openssl postgresql prometheus' purpose='the tests of the files for Kubernetes and compose' ;;
	bench) packages='wrk sqlite3 postgresql' purpose='the benchmark' ;;
	testssl) packages=testssl.sh purpose='the test of TLS with testssl.sh' ;;
	*)
		report "there is no group \"$1\""
		exit 2
		;;
	esac
}

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

# missing prints the packages that are not installed.
missing() {
	command -v dpkg-query >/dev/null || return 0
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$package"
	done
}

if [ "${INSTALL:-}" = no ] || ! command -v apt-get >/dev/null; then
	as_root=no
elif [ "$(id -u)" -eq 0 ]; then
	as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	as_root='sudo -n'
else
	as_root=no
fi
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2
}

# The lists of packages below are split at spaces.
# shellcheck disable=SC2086
{
	lacking=
	for name in "$@"; do
		group "$name"
		some=$(missing $packages)
		[ -z "$some" ] || [ "$as_root" = no ] || report "missing: $some, for $purpose"
		lacking="$lacking$some"
	done
	if [ -n "$lacking" ] && [ "$as_root" != no ]; then
		report 'installing them with apt-get; with INSTALL=no, the checks run without them'
		# The package lists of a fresh machine are empty: fetch them only if the install fails.
		apt install --no-install-recommends $lacking || { apt update && apt install --no-install-recommends $lacking; } || true
	fi

	incomplete=
	for name in "$@"; do
		group "$name"
		some=$(missing $packages)
		if [ -z "$some" ] && { [ "$name" != race ] || tools/can-race.sh; }; then
			continue
		fi
		report "LEFT OUT: $purpose; install ${some:-$packages }as root"
		incomplete=yes
	done
}
if [ -n "$incomplete" ] && [ "${CI:-}" = true ]; then
	report 'CI is true: a missing part is an error'
	exit 1
fi
