# The everyday commands of the project. `make help` lists them. Everything but
# lint, fmt, bench-compare and verify needs Go alone; those four build their
# tools from source, at the versions of internal/tools/go.mod.

# Every module but the tools, found by its go.mod, so that a new one is never forgotten.
MODULES := $(shell find . -name go.mod -not -path './internal/tools/*' -not -path '*/testdata/*' | xargs -n 1 dirname | sort)

# Modules whose tests start real servers. verify vets and builds them, but does
# not repeat their tests.
REAL := $(filter ./internal/integration%,$(MODULES))

TOOL := GOWORK=off go tool -modfile=$(CURDIR)/internal/tools/go.mod

# The race detector needs a C compiler; the go command says 0 where there is none.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

BENCH       ?= .
BENCHTIME   ?= 1s
ROOM        ?=
STORES      ?= memory redis postgres mariadb sqlite transactions
FUZZTIME    ?= 10s
TESTFLAGS   ?=
TESTTIMEOUT ?= 12m

.DEFAULT_GOAL := help
.PHONY: help demo test test-short bench bench-stores bench-table bench-compare fuzz lint fmt tidy verify mutants servers

help: ## Print the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' Makefile

demo: ## Run the tour: duplicates, crashes and races against a payments service. Exits non-zero if a promise broke.
	go run ./cmd/ibid demo

test: servers ## Run every test of every module, with the race detector where a C compiler is found. Installs missing servers, if root on Debian.
	@$(if $(RACE),,echo "test: no C compiler: the race detector stays off")
	@failed=0; skips=$$(mktemp); trap 'rm -f "$$skips"' EXIT; for m in $(MODULES); do \
		echo "== $$m: go test $(RACE) $(TESTFLAGS) ./..."; \
		(cd $$m && IBID_TEST_SKIPS=$$skips go test $(RACE) -timeout $(TESTTIMEOUT) $(TESTFLAGS) ./...) || failed=1; \
	done; sort -u "$$skips" | sed 's/^/SKIPPED /'; exit $$failed

test-short: ## Run the tests of every module without the long ones and without the race detector.
	@for m in $(MODULES); do \
		echo "== $$m: go test -short ./..."; \
		(cd $$m && go test -short -timeout $(TESTTIMEOUT) $(TESTFLAGS) ./...) || exit 1; \
	done

servers: ## Look for the servers that tests start; install them where that is possible (IBID_TEST_INSTALL=never: look only).
	@.ci/servers

bench: ## Run the benchmarks (BENCH=regexp, BENCHTIME=1s).
	@for m in $(MODULES); do \
		(cd $$m && go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...) || exit 1; \
	done

bench-stores: ## Compare every store with its limit, in the same run: medians and spread (about four minutes).
	@go run ./internal/benchtable $(STORES)

bench-table: ## Measure all rooms, or ROOM=name, and write their tables into docs/performance.md.
	@go run ./internal/benchtable -update docs/performance.md $(ROOM)

bench-compare: ## Compare two outputs of `make bench` (OLD=file NEW=file).
	@$(TOOL) benchstat $(OLD) $(NEW)

fuzz: ## Run each fuzz target for FUZZTIME (default 10s).
	@grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' . | grep -v /testdata/ | sed 's/:func / /' | sort | \
	while read -r file target; do \
		echo "== $$target ($$(dirname $$file), $(FUZZTIME))"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$(dirname $$file) </dev/null || exit 1; \
	done

lint: ## Run golangci-lint over every module (.golangci.yml).
	@failed=0; for m in $(MODULES); do \
		echo "== $$m: golangci-lint"; \
		(cd $$m && $(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
	done; exit $$failed

fmt: ## Format every Go file with gofumpt.
	@$(TOOL) gofumpt -w .

tidy: ## Run go mod tidy in every module, the tools included.
	@for m in $(MODULES) ./internal/tools; do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

verify: ## Check what must hold before a merge: tidy modules, format, vet, mutants that apply, each module on its own.
	@for m in $(MODULES); do \
		echo "== $$m: go mod tidy -diff"; \
		(cd $$m && GOWORK=off go mod tidy -diff) || exit 1; \
	done
	@echo "== gofumpt -l"
	@out=$$($(TOOL) gofumpt -l .) || exit 1; \
	if [ -n "$$out" ]; then echo "verify: not formatted, run make fmt:"; echo "$$out"; exit 1; fi
	@echo "== mutants -check"
	@go run ./internal/mutants -check
	@for m in $(filter-out $(REAL),$(MODULES)); do \
		echo "== $$m: GOWORK=off go vet, build, test -short"; \
		(cd $$m && export GOWORK=off && go vet ./... && go build ./... && go test -short -timeout $(TESTTIMEOUT) ./...) || exit 1; \
	done
	@for m in $(REAL); do \
		echo "== $$m: GOWORK=off go vet, build; its tests need servers and run under make test"; \
		(cd $$m && export GOWORK=off && go vet ./... && go build ./...) || exit 1; \
	done

mutants: ## Break the code in every way of internal/mutants/*.mut and see each named test fail.
	go run ./internal/mutants
