#!/bin/sh
# Succeeds if this machine can link the race detector: it has a C compiler and the headers and libraries of the C library.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/probe.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
int main(void) { return EXIT_SUCCESS; }
C
# CC may contain options too.
# shellcheck disable=SC2046
$(go env CC) -o "$work/probe" "$work/probe.c" -lpthread >/dev/null 2>&1
