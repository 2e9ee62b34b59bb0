#!/bin/sh
# Gives the sources a version: version.sh 1.0.0 before a release, version.sh 1.1.0-dev after it. The changelog gets the date of
# the release (UTC), or an empty section. It commits nothing.
set -eu
cd "$(dirname "$0")/.."
fail() {
	printf 'version: %s\n' "$1" >&2
	exit 1
}

new=${1:-}
printf '%s\n' "$new" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+(-dev)?' ||
	fail "the version must have the form 1.2.3 or 1.2.3-dev; got \"$new\""
old=$(sed -n 's/^const version = "\(.*\)"$/\1/p' cmd/plantstore/version.go)
[ -n "$old" ] || fail 'cmd/plantstore/version.go has no version'
[ "$new" != "$old" ] || fail "the version is $old already"

has=$(grep -cx '## \[Unreleased\]' CHANGELOG.md || true)
case $new,$has in
*-dev,0) sed -i "0,/^## \[/s/^## \[/## [Unreleased]\n\n&/" CHANGELOG.md ;;
*-dev,*) fail 'CHANGELOG.md has a section Unreleased already' ;;
*,1) sed -i "s/^## \[Unreleased\]$/## [$new] - $(date -u +%Y-%m-%d)/" CHANGELOG.md ;;
*) fail 'CHANGELOG.md has no section Unreleased' ;;
esac

# replace BEFORE PATH… replaces the old version after a regular expression: other programs have versions too.
replace() {
	before=$1
	shift
	find "$@" -type f -exec sed -i "s/\($before\)$escaped\([^0-9.-]\|$\)/\1$new\2/g" {} +
}
escaped=$(printf '%s' "$old" | sed 's/\./\\./g')
replace 'const version = "' cmd/plantstore/version.go
replace '[vV]ersion: "\{0,1\}\|plantstore:' deploy
replace '^plantstore ' docs/how-to docs/tutorial # the output of plantstore version
# Packages have 1.0.0~dev, which is older than 1.0.0.
sed -i "s/$(echo "$escaped" | tr - '~')-1/$(echo "$new" | tr - '~')-1/g" docs/how-to/install-a-package.md
case $old in
*-dev)
	! grep -rnF "$old" cmd/plantstore/*.go deploy docs || fail "these lines have the version $old; complete this script"
	;;
esac
