# Each target is one command; `make help` lists them. `make test` is the gate: what it refuses does not land.

# What the tests need beyond Go, git and make, as Debian packages: the race detector links with a C compiler, and one engine keeps its store in PostgreSQL, and the page of the API document is drawn in a browser.
DEBIAN_PACKAGES := gcc libc6-dev postgresql chromium

# What the benchmark needs beyond that: the generator, and what the product is compared with.
BENCH_PACKAGES := wrk sqlite3

# What the short forms of the fault harnesses need, and their long forms as well.
FAULT_PACKAGES := strace e2fsprogs util-linux mount

# How much of internal/ the tests must run, in per cent of its statements.
COVERAGE_MIN := 90.0

# How long `make fuzz` spends on each fuzz target.
FUZZTIME := 60s

# The tools stand in a module of their own, so that what they need is no dependency of the product.
TOOL := go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\): .*## \(.*\)/\1\t\2/p' Makefile | while IFS='	' read -r target text; do printf '  %-8s %s\n' "$$target" "$$text"; done

.PHONY: run
run: ## run the server from the sources; ARGS='…' adds to its command line
	go run ./cmd/plantstore serve $(ARGS)

.PHONY: test
test: need lint ## the gate: what the machine needs, lint, all tests with the race detector, coverage, the short faults
	tools/test.sh
	tools/coverage.sh $(COVERAGE_MIN)
	cd bench && go test ./...
	tools/faults.sh short

.PHONY: need
need:
	@tools/need.sh $(DEBIAN_PACKAGES) $(FAULT_PACKAGES)

.PHONY: lint
lint: ## formatting, go.mod and go.sum, go vet, golangci-lint, of the program, the benchmark and the faults
	@tools/format.sh
	tools/lint.sh . bench faults

.PHONY: fmt
fmt: ## format the sources with gofumpt
	$(TOOL) gofumpt -w .

.PHONY: cover
cover: ## run the tests and write coverage.html
	tools/test.sh
	go tool cover -html=coverage.out -o coverage.html

.PHONY: fuzz
fuzz: ## run every fuzz target in turn, FUZZTIME=60s each
	tools/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## measure against a floor and the peers, on a quiet machine; ARGS='…' adds to its command line
	@tools/need.sh $(DEBIAN_PACKAGES) $(BENCH_PACKAGES)
	cd bench && go run . $(ARGS)

.PHONY: faults
faults: ## do the program harm in every way of faults/, the long form, which takes hours
	@tools/need.sh $(DEBIAN_PACKAGES) $(FAULT_PACKAGES)
	tools/faults.sh long

.PHONY: hostile
hostile: ## run the tests in an environment that they must not depend on: nohup, umask, locale, TMPDIR, PG…; KINDS='…' picks some
	@tools/need.sh $(DEBIAN_PACKAGES) $(FAULT_PACKAGES)
	tools/hostile.sh $(KINDS)

.PHONY: vuln
vuln: ## look for known vulnerabilities; VULNDB=file:///… for a copy of the database
	$(TOOL) govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...

.PHONY: dist
dist: ## build the static binary dist/plantstore
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w $$(tools/ldflags.sh)" -o dist/plantstore ./cmd/plantstore

.PHONY: clean
clean: ## remove what the other targets have built
	rm -rf dist coverage.out coverage.html
