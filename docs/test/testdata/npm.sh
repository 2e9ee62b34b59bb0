# Provides the packages of a page that uses npm, for the directory nursery of the reader. Other scripts source it.

# packages PAGE PATH writes a file of another page, and the packages that the test has installed from the lock file.
packages() {
	cd /home/reader
	block "$1" "$2"
	install -d nursery/node_modules
	install -m 644 /opt/docs-test/npm/package-lock.json nursery/
	mount --bind /opt/docs-test/npm/node_modules nursery/node_modules
	# npm finds the packages; a page has no network.
	printf 'audit=false\nfund=false\noffline=true\nupdate-notifier=false\n' > .npmrc
	chown -R reader: "$2" nursery .npmrc
}
