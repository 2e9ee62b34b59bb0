#!/bin/sh
# Writes the files that the packages install in /usr/share/plantstore, and the archives have in share: shared-files.sh DIRECTORY.
#
# The pages are the whole documentation, so that each link of a runbook names a file that is there.
set -eu
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")/.."
umask 022
mkdir -p "$out/prometheus" "$out/grafana" "$out/docs"
cp deploy/prometheus/plantstore.yml "$out/prometheus"
cp deploy/grafana/plantstore.json "$out/grafana"
cp docs/README.md "$out/docs"
for folder in tutorial how-to runbooks reference explanation; do
	mkdir "$out/docs/$folder"
	cp "docs/$folder"/*.md "$out/docs/$folder"
done
