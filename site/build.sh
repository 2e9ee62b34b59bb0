#!/bin/sh
# Builds the documentation as static pages in OUT/VERSION, and the list of the versions in OUT: build.sh [OUT [VERSION]].
# OUT is dist/site by default, VERSION the tag of the commit or main. It needs Hugo and curl.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist/site}")
version=${2:-$(git describe --tags --exact-match 2>/dev/null || echo main)}
case $version in
'' | .* | *[!A-Za-z0-9._+-]*)
	printf 'site: the version must be letters, digits and . _ + -; got %s\n' "$version" >&2
	exit 1
	;;
esac

work=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

mkdir "$work/data" "$work/data/api"
: >"$work/log"

# The API documents are those that a server with default settings serves. It stores its data in the temporary directory.
go build -o "$work/plantstore" ./cmd/plantstore
env -i HOME="$work" PATH="$PATH" "$work/plantstore" serve --db "$work/plants.db" --base-url http://127.0.0.1:8080 \
	--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --log-format json >"$work/out" 2>"$work/log" &
server=$!
tries=0
until grep -q '"msg":"ready"' "$work/log"; do
	tries=$((tries + 1))
	if [ "$tries" -gt 150 ] || ! kill -0 "$server" 2>/dev/null; then
		printf 'site: the server did not become ready:\n' >&2
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.1
done
address() { sed -n "s/.*\"msg\":\"ready\".*\"$1\":\"\(http:..\)\{0,1\}\([0-9.:]*\)\".*/\2/p" "$work/log"; }

# Hugo reads the documents as YAML, because JSON is a subset. It reads a number of JSON as a float and would round ids.
data=$work/data
mkdir -p "$out"
curl -fsS "http://$(address listen)/openapi.json" >"$data/api/public.json"
curl -fsS "http://$(address admin)/api/v1/openapi.json" >"$data/api/admin.json"
cp "$data/api/public.json" "$data/public.yaml"
cp "$data/api/admin.json" "$data/admin.yaml"

sed "s|: DATA|: $data|" site/hugo.yaml >"$work/hugo.yaml"
export HUGO_PARAMS_VERSION="$version" HUGO_CACHEDIR="$work/cache" HUGO_RESOURCEDIR="$work/resources"
hugo --source site --config "$work/hugo.yaml" --destination "$work/site" --noBuildLock >"$work/hugo" || {
	cat "$work/hugo" >&2
	exit 1
}
rm -rf "${out:?}/$version"
mv "$work/site" "$out/$version"

# The versions, the newest first: each has the list in its menu.
versions=$(cd "$out" && for page in */index.html; do dirname "$page"; done | sort -rV)
newest=$(printf '%s\n' "$versions" | grep '^v[0-9]' | head -n 1)
{
	printf 'siteVersions = ['
	printf '%s\n' "$versions" | sed 's/.*/"&"/' | paste -s -d , - | tr -d '\n'
	printf ']\n'
} >"$out/versions.js"
printf '<!doctype html><meta http-equiv="refresh" content="0; url=%s/index.html"><title>Plant Store</title>\n' \
	"${newest:-$version}" >"$out/index.html"
printf 'site: wrote %s\n' "$out/$version/index.html"
