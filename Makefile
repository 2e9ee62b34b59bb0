# Each target is one command; `make help` lists them. A change lands when `make test` and `make check` pass.
# tools/need.sh has the Debian packages of the checks.

# The time that `make fuzz` spends on each fuzz target.
FUZZTIME := 10m

# The form of the program that `make dist` builds. The system loads a position-independent program at random addresses; it
# needs the loader of the C library, but no library. BUILDMODE=exe builds a program that needs neither.
BUILDMODE := pie

# The tools have modules of their own, so that their dependencies stay out of the product.
TOOL := go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\): .*## \(.*\)/\1\t\2/p' Makefile | while IFS='	' read -r target text; do printf '  %-8s %s\n' "$$target" "$$text"; done

.PHONY: run
run: ## build ./plantstore and run the server; ARGS='…' adds to its command line
	@[ -e plantstore ] || echo 'The first build takes a few minutes. Each package is shown when it is compiled.'
	@CGO_ENABLED=0 go build -v -o plantstore ./cmd/plantstore
	@exec ./plantstore serve $(ARGS)

.PHONY: test
test: ## run the short form of all tests with the race detector: 4 minutes; INSTALL=no installs no packages
	@tools/need.sh race postgresql browser
	tools/test.sh
	@INSTALL=no tools/need.sh race postgresql browser

.PHONY: check
check: ## check a change beyond make test: lint, README.md, fault harnesses, the parts whose files changed: 3 minutes
	@$(MAKE) --no-print-directory lint
	tools/check.sh

.PHONY: nightly
nightly: ## run all other checks: pages, long forms, coverage, all harnesses, release, packages, images; PARTS='…' selects
	tools/nightly.sh $(PARTS)

.PHONY: lint
lint: ## check formatting, go.mod and go.sum, golangci-lint (with go vet), workflows and the language of pages and comments
	@tools/format.sh
	tools/lint.sh . bench faults docs/test tools/image tools/kube tools/otelcol tools/packages tools/release
	tools/workflows.sh
	tools/prose.sh error

.PHONY: prose
prose: ## show the warnings about the language too: long sentences, runs of passives
	tools/prose.sh warning

.PHONY: fmt
fmt: ## format the sources with gofumpt
	$(TOOL) gofumpt -w .

.PHONY: cover
cover: ## run the tests and write coverage.html
	tools/coverage.sh
	go tool cover -html=coverage.out -o coverage.html

.PHONY: fuzz
fuzz: ## run each fuzz target in turn, FUZZTIME=10m each, and print the number of executions
	tools/fuzz.sh $(FUZZTIME)

.PHONY: site
site: ## build the documentation as static pages in dist/site, with search and a menu of the versions built there
	@tools/need.sh site
	site/build.sh

.PHONY: bench
bench: ## measure against a floor, the peers and the last release, on a quiet machine: half an hour
	@tools/need.sh bench
	cd bench && go run . $(ARGS)

.PHONY: pages
pages: ## measure the pages of the console with 10 million plants on both engines, on a quiet machine: 10 minutes
	go test -count=1 -v -timeout=60m -run=TestPageTimes ./internal/console -args -plants=10000000

.PHONY: screenshots
screenshots: ## write the images of the console in docs/images; look at each before you commit it
	go test -count=1 -run=TestScreenshots ./internal/console -args -update

.PHONY: fixture
fixture: dist ## write the stores that later versions must be able to upgrade, before a release: VERSION=1.0.0
	@test -n "$(VERSION)" || { echo 'name the version: make fixture VERSION=1.0.0' >&2; exit 2; }
	go test -count=1 -run='^TestWriteFixture$$' ./cmd/plantstore \
		-args -fixture="$(VERSION)" -program="$(CURDIR)/dist/plantstore" -commit="$$(git rev-parse HEAD)"

.PHONY: faults
faults: ## run the long form of every fault harness, which takes hours
	@tools/need.sh postgresql faults testssl
	tools/faults.sh long

.PHONY: testssl
testssl: ## run testssl.sh against a server with TLS: 3 minutes
	@tools/need.sh testssl
	cd faults && go test -count=1 -run=TestTestssl ./tls -args -long

.PHONY: hostile
hostile: ## run the tests under environments that they must not depend on: nohup, umask, locale, TMPDIR, PG…; KINDS='…' selects
	@tools/need.sh postgresql browser faults
	tools/odd-environment.sh $(KINDS)

.PHONY: vuln
vuln: ## search for known vulnerabilities; VULNDB=… names a copy of the database: a directory or a .tar.gz file
	tools/vuln.sh required

# The list of components is written on this machine, also if GOOS or GOARCH selects another one.
.PHONY: dist
dist: ## build dist/plantstore, with the list of its components and the licences; BUILDMODE=exe links it statically
	tools/build.sh native $(BUILDMODE) dist/plantstore
	cd tools/release && env -u GOOS -u GOARCH go run . sbom ../../dist/plantstore >../../dist/plantstore.cdx.json
	cp THIRD_PARTY_NOTICES dist/

.PHONY: image
image: ## write dist/image, an OCI layout with the container images for amd64 and arm64
	rm -rf dist/image
	for arch in amd64 arm64; do tools/build.sh linux/$$arch exe dist/plantstore-linux-$$arch || exit; done
	cd tools/image && env -u GOOS -u GOARCH go run . -revision="$$(git rev-parse HEAD)" \
		-created="$$(TZ=UTC0 git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)" \
		../../dist/image ../../dist/plantstore-linux-amd64 ../../dist/plantstore-linux-arm64

.PHONY: release
release: ## write archives, packages, hashes and component lists of a release into dist/release; RELEASE_KEY=FILE signs them
	tools/release.sh

.PHONY: deb
deb: ## build the Debian and RPM packages for this machine's architecture in dist/release
	@PLATFORMS= PACKAGES="linux/$$(go env GOHOSTARCH)" tools/release.sh
	@ls dist/release/*.deb dist/release/*.rpm

.PHONY: notices
notices: ## write THIRD_PARTY_NOTICES, after a change of the modules that the program links
	mkdir -p dist
	cd tools/release && go run . notices >../../dist/notices
	mv dist/notices THIRD_PARTY_NOTICES

.PHONY: clean
clean: ## remove the files that the other targets build
	rm -rf dist coverage.out coverage.html
