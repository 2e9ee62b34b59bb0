#!/bin/sh
# Checks the workflows of the forge with actionlint, and that each action is pinned by a commit.
#
# The verdict must not depend on installed programs: actionlint runs shellcheck and pyflakes if it finds them.
set -eu
cd "$(dirname "$0")/.."
go tool -modfile=tools/actionlint.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
if grep -nE '^[ -]*uses:' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v[0-9.]+$'; then
	printf 'workflows: pin these actions by the commit of a release, with its version in a comment\n' >&2
	exit 1
fi
