#!/bin/sh
# Prints the linker flags that store the commit in the program, for `go build -ldflags`. They do not depend on the time or
# the place of the build. Outside a git repository it prints nothing, and the program reports an unknown version.
set -eu
cd "$(dirname "$0")/.."

# In an unpacked archive, git may find the repository of a parent directory: its commit is not that of the program.
[ "$(git rev-parse --show-prefix 2>/dev/null || echo none)" = "" ] || exit 0
commit=$(git rev-parse --verify --quiet HEAD) || exit 0
at=$(TZ=UTC0 git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)
if [ -n "$(git status --porcelain)" ]; then modified=true; else modified=false; fi
printf -- '-X main.commit=%s -X main.commitTime=%s -X main.commitModified=%s\n' "$commit" "$at" "$modified"
