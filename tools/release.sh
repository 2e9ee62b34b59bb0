#!/bin/sh
# Writes the files of a release into dist/release, from the commit that is checked out:
#
#   plantstore_VERSION_PLATFORM.tar.gz    the program, manual pages, completions, licences, rules, dashboard, pages, units
#   plantstore_VERSION-1_ARCH.deb         plantstore-VERSION-1.ARCH.rpm
#   FILE.cdx.json                         the components of the program in FILE (CycloneDX)
#   SHA256SUMS, SHA256SUMS.minisig        the hashes of all others, signed
#
# RELEASE_KEY names a secret key of minisign(1), which requests its password from the terminal or from standard input. Without
# RELEASE_KEY nothing is signed. PLATFORMS and PACKAGES select platforms of archives and of packages. MAINTAINER is the name and
# the address in the packages, HOMEPAGE the URL of the project. The files depend only on the commit, MAINTAINER, HOMEPAGE and the
# version of Go.
set -eu
umask 022
export LC_ALL=C # the order of the files in SHA256SUMS
cd "$(dirname "$0")/.."
platforms=${PLATFORMS-linux/amd64 linux/arm64 linux/armv7 linux/riscv64 darwin/amd64 darwin/arm64}
packages=${PACKAGES-linux/amd64 linux/arm64}

report() { printf 'release: %s\n' "$*" >&2; }
if [ -n "${RELEASE_KEY:-}" ]; then
	[ -r "$RELEASE_KEY" ] || { report "cannot read the key $RELEASE_KEY"; exit 1; }
	command -v minisign >/dev/null || { report 'minisign is missing; install it to sign the release'; exit 1; }
	case $RELEASE_KEY in /*) key=$RELEASE_KEY ;; *) key=$PWD/$RELEASE_KEY ;; esac
fi
commit=$(git rev-parse --verify HEAD)
at=$(TZ=UTC0 git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)
version=$(sed -n 's/^const version = "\(.*\)"$/\1/p' cmd/plantstore/version.go)
if [ -n "$(git status --porcelain)" ]; then
	report 'WARNING: the checkout has changes that are not in the commit'
fi

out=$PWD/dist/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
rm -rf "$out"
mkdir -p "$out" "$work/native" "$work/completions" "$work/man"
(cd tools/release && env -u GOOS -u GOARCH go build -o "$work/release" .)
(cd tools/packages && env -u GOOS -u GOARCH go build -o "$work/packages" .)

env -u GOOS -u GOARCH tools/build.sh native pie "$work/native/plantstore"
tools/manual-pages.sh "$work/man"
"$work/native/plantstore" completion bash >"$work/completions/plantstore.bash"
"$work/native/plantstore" completion zsh >"$work/completions/_plantstore"
"$work/native/plantstore" completion fish >"$work/completions/plantstore.fish"
"$work/native/plantstore" completion powershell >"$work/completions/plantstore.ps1"
tools/shared-files.sh "$work/share"

for platform in $platforms; do
	file=plantstore_${version}_$(echo "$platform" | tr / _).tar.gz
	report "$file"
	case $platform in darwin/*) mode=pie ;; *) mode=exe ;; esac
	tree=$work/$(echo "$platform" | tr / _)
	mkdir -p "$tree/man" "$tree/completions"
	tools/build.sh "$platform" "$mode" "$tree/plantstore"
	cp LICENSE THIRD_PARTY_NOTICES CHANGELOG.md "$tree"
	cp "$work"/man/* "$tree/man"
	cp "$work"/completions/* "$tree/completions"
	cp -R "$work/share" "$tree"
	cp -R deploy/systemd "$tree/share"
	"$work/release" archive "$tree" "$at" "plantstore_$version" >"$out/$file"
	"$work/release" sbom "$tree/plantstore" >"$out/$file.cdx.json"
done

for platform in $packages; do
	report "packages for $platform"
	tree=$work/packages-$(echo "$platform" | tr / _)
	mkdir -p "$tree/out"
	tools/build.sh "$platform" pie "$tree/plantstore"
	(cd tools/packages && "$work/packages" -version "$version" -time "$at" -completions "$work/completions" -manual "$work/man" \
		-share "$work/share" -out "$tree/out" ${MAINTAINER:+-maintainer "$MAINTAINER"} ${HOMEPAGE:+-homepage "$HOMEPAGE"} \
		"$tree/plantstore")
	"$work/release" sbom "$tree/plantstore" >"$tree/cdx.json"
	for file in "$tree"/out/*; do
		mv "$file" "$out"
		cp "$tree/cdx.json" "$out/$(basename "$file").cdx.json"
	done
done

cd "$out"
sha256sum -- * >SHA256SUMS
if [ -n "${RELEASE_KEY:-}" ]; then
	minisign -S -s "$key" -m SHA256SUMS -t "plantstore $version, commit $commit"
else
	report 'NOT SIGNED: RELEASE_KEY names no secret key'
fi
report "dist/release has $(wc -l <SHA256SUMS) files of plantstore $version, commit $commit"
