#!/bin/sh
# Prints the linker flags that tell the program which commit it is built from, for `go build -ldflags`. Nothing in them
# depends on when or where it is built. Where git does not know the commit, it prints nothing, and the version is unknown.
set -eu
cd "$(dirname "$0")/.."

# In an unpacked archive, git may find the repository of a folder above: that commit is not ours.
[ "$(git rev-parse --show-prefix 2>/dev/null || echo none)" = "" ] || exit 0
commit=$(git rev-parse --verify --quiet HEAD) || exit 0
at=$(TZ=UTC0 git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)
if [ -n "$(git status --porcelain)" ]; then modified=true; else modified=false; fi
printf -- '-X main.commit=%s -X main.commitTime=%s -X main.commitModified=%s\n' "$commit" "$at" "$modified"
