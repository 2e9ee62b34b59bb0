#!/bin/sh
# Checks a change beyond make test: a fixed part, and parts for the files that changed. make nightly runs all parts.
#
# CHANGED_SINCE is the commit of main before the change; by default origin/main. Without such a commit, or on main itself, only the
# fixed part runs.
set -eu
cd "$(dirname "$0")/.."

report() { printf 'check: %s\n' "$*" >&2; }

since=${CHANGED_SINCE:-origin/main}
files=
if base=$(git merge-base "$since" HEAD 2>/dev/null); then
	files=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)
	report "$(printf '%s' "$files" | grep -c '' || true) files differ from $since ($base)"
else
	report "no commit \"$since\": only the fixed part runs; CHANGED_SINCE names another commit"
fi

# changed succeeds if the path of a changed file matches the pattern.
changed() { printf '%s\n' "$files" | grep -qE "$1"; }

# README.md, and the pages whose text or set-up changed.
pages=$(printf '%s\n' "$files" | sed -nE \
	's,^docs/(tutorial|how-to|runbooks)/([^/]*)\.md$,\2,p; s,^docs/test/testdata/(npm/)?([^/.]*)[/.].*,\2,p' | sort -u | paste -s -d '|' -)
tests="TestPages/^(README${pages:+|$pages})\$"
needs=readme
[ -z "$pages" ] || needs='readme pages npm'
if changed '^(deploy/(prometheus|grafana)|docs/test)/'; then
	tests="$tests|TestRules|TestExpressionsOfTheDashboard|TestDashboardSchema|TestControl"
	needs='readme pages npm'
fi
# shellcheck disable=SC2086 # a list
tools/need.sh faults $needs
(cd docs/test && go test -count=1 -parallel=4 -timeout=60m -run="$tests" .)
tools/faults.sh gate
# The test has a process of its own, and goes without the tests of its package.
go test -count=1 -timeout=5m -run='^TestCounts$' ./cmd/plantstore -args -counts
(cd tools/release && go test -count=1 -short ./...)

# The harnesses that the gate does not run, and the long forms of tests.
for harness in dialect disk overload replicas webhooks soak tls; do
	! changed "^faults/$harness/" || tools/faults.sh short "$harness"
done
! changed '^(faults/copies|internal/backup)/' || tools/faults.sh short copies
! changed '^(faults/standby/|internal/backup/|internal/serve/role\.go)' || tools/faults.sh short standby
for package in internal/acme internal/console internal/trace; do
	! changed "^$package/" || tools/long-tests.sh "$package"
done
# What clients that were generated from the specification rely on.
! changed '^(internal/(server/(openapi|testdata/spec|oasdiff)|apidoc/)|tools/oasdiff)' || tools/long-tests.sh internal/server
# The links of the pages that are published.
! changed '^(site/|docs/.*\.md$|README\.md$)' || { tools/need.sh browser site && tools/long-tests.sh site; }
! changed '^bench/' || (cd bench && go test -count=1 ./...)
! changed '^tools/(release|build|ldflags|manual)' || tools/nightly.sh release
! changed '^(tools/(packages/|manual-pages|shared-files)|deploy/(package|systemd)/)' || tools/nightly.sh packages
! changed '^(tools/image/|deploy/Containerfile)' || tools/nightly.sh image
! changed '^(tools/kube|deploy/(helm|kubernetes|compose))/' || tools/nightly.sh kube
! changed '^go\.(mod|sum)$' || tools/vuln.sh
