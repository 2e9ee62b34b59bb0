#!/bin/sh
# Builds the program: build.sh PLATFORM BUILDMODE FILE. PLATFORM is native, or for example linux/amd64 or linux/armv7. BUILDMODE
# is exe (on Linux: needs no file of the system) or pie (loaded at random addresses, by the loader of the C library).
#
# -buildid= omits an identifier that depends on the build cache, and -buildvcs=false facts that depend on the kind of checkout;
# ldflags.sh stores the commit.
set -eu
platform=$1 mode=$2 file=$3
case $file in /*) ;; *) file=$PWD/$file ;; esac
cd "$(dirname "$0")/.."
case $platform in
native) ;;
linux/armv7) export GOOS=linux GOARCH=arm GOARM=7 ;;
*/*) export GOOS="${platform%/*}" GOARCH="${platform#*/}" ;;
*)
	echo "build.sh: \"$platform\" is not a platform; use native, linux/amd64, …" >&2
	exit 2
	;;
esac
CGO_ENABLED=0 go build -trimpath -buildvcs=false -buildmode="$mode" -ldflags="-s -w -buildid= $(tools/ldflags.sh)" \
	-o "$file" ./cmd/plantstore
