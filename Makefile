# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets.

GO        ?= go
DEMO_ARGS ?=
# e.g. BENCH_ARGS='-repeat 3', '-states op -threads 2'
BENCH_ARGS ?=
# Folder of the engines that tests run: profinfer's cache folder, unless it is set.
ifeq ($(PROFINFER_ENGINES),)
PROFINFER_ENGINES := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(if $(HOME),$(HOME)/.cache,/var/cache))/profinfer
endif
export PROFINFER_ENGINES
# No test of these judges by the clock: they run beside each other. First those that mostly compute, then
# those that start programs and wait for them, and then those with real engines by themselves: a recorder that
# gets no CPU for tens of milliseconds misses the first step of a small model, and says so.
PAGES  = ./internal/browser ./internal/arm64
FIRST  = $(shell $(GO) list ./... | grep -vE '/internal/(e2e|browser|arm64)$$')
BESIDE = $(shell expr $$(nproc) + 1)
# What does judge (testkit.Quiet) has the machine to itself.
QUIET  = $(shell grep -rl --include='*_test.go' 'testkit\.Quiet(t)' . | xargs -n 1 dirname | sort -u)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/profinfer
	$(GO) build -o bin/profinfer ./cmd/profinfer

.PHONY: demo
demo: build ## show profinfer at work: fetches an engine, makes a model, profiles them (root)
	@scripts/deps.sh demo
	bin/profinfer demo $(DEMO_ARGS)

.PHONY: test
test: engines browser ## run the tests that decide whether a change is right; as root also with real engines and real probes
	@$(GO) build -o bin/testrun ./internal/testrun
	@bin/testrun -timeout 20m -p $(BESIDE) $(FIRST) -p 2 $(PAGES) -p 1 ./internal/e2e

.PHONY: test-all
test-all: engines browser ## run all tests: also long ones, those that need a quiet machine, those of `make arm64`
	@$(GO) build -o bin/testrun ./internal/testrun
	@PROFINFER_LONG=1 bin/testrun -timeout 20m -p $(BESIDE) -skip '^TestQuiet' $(FIRST) -p 2 -skip '^TestQuiet' $(PAGES) \
	  -p 1 -skip '^TestQuiet' ./internal/e2e -p 1 -run '^TestQuiet' $(QUIET)

.PHONY: browser
browser: ## fetch what tests drive a browser with (npm)
	@if ! command -v npm >/dev/null; then echo "npm is missing: tests in a browser are skipped" >&2; \
	elif ! said=$$($(MAKE) --no-print-directory -s web/node_modules 2>&1); then \
	  test -z "$$PROFINFER_REQUIRE_BPF" || { echo "$$said" >&2; exit 1; }; \
	  echo "npm ci fails here: $$(echo "$$said" | grep -m1 'npm err.* ' || echo "$$said" | head -n 1): tests in a browser are skipped" >&2; fi

.PHONY: e2e
e2e: engines ## run only the tests with real engines, again, and fail where one cannot run
	PROFINFER_REQUIRE_BPF=1 $(GO) test -p 1 -count=1 -timeout 20m ./internal/... ./record/... ./probe/...

.PHONY: soak
soak: engines ## hours of harm that must not be done: 5,000 short engines, 1,000 attaches to a server, kills at random (root; SOAK=N for fewer)
	PROFINFER_REQUIRE_BPF=1 PROFINFER_LONG=1 PROFINFER_SOAK=$(or $(SOAK),5000) $(GO) test -count=1 -timeout 5h -v -run 'TestSoak|TestManyEngines' ./internal/e2e

.PHONY: fuzz
fuzz: ## fuzz everything that reads files or processes, each target for a minute (FUZZTIME=5s, FUZZ=peaks or FUZZ=OpenELF for some)
	@FUZZTIME=$(or $(FUZZTIME),1m) GO="$(GO)" scripts/fuzz.sh $(FUZZ)

.PHONY: bench-overhead
bench-overhead: ## print what recording costs here, beside bpftrace and llama-eval-callback (root, 24 minutes)
	@scripts/deps.sh demo
	$(GO) run ./internal/bench/overhead $(BENCH_ARGS)

.PHONY: engines
engines: ## fetch the engines that tests run (root; Debian's llama.cpp, npm's builds)
	@if [ "$$(id -u)" = 0 ]; then scripts/deps.sh test && $(GO) run ./internal/engines/fetch -optional; \
	else echo "not root: tests with real engines are skipped" >&2; fi

.PHONY: arm64
arm64: ## make the emulated arm64 machine, once (apt, qemu): from then on tests run in it too
	@scripts/deps.sh arm64 && scripts/arm64.sh setup

.PHONY: test-arm64
test-arm64: arm64 ## run only the tests in the emulated arm64 machine, and fail where one cannot run
	PROFINFER_REQUIRE_ARM64=1 PROFINFER_LONG=1 $(GO) test -count=1 -timeout 30m ./internal/arm64

.PHONY: generate
generate: ## compile the kernel side (needs clang-19), and write the types of the page's data
	$(GO) generate ./probe/... ./views/report

.PHONY: check-generated
check-generated: ## prove that the committed kernel objects and the page are what the sources give
	@scripts/check-generated.sh

.PHONY: lint
lint: ## check formatting, vet for all systems, check the scripts
	@scripts/lint.sh

.PHONY: ci
ci: ## all that CI runs
	@scripts/deps.sh ci
	@$(MAKE) --no-print-directory arm64 lint check-generated
	@PROFINFER_REQUIRE_ARM64=1 $(MAKE) --no-print-directory test-all

.PHONY: bench
bench: ## print in one table what reading ten million events, recording a short command and attaching take (root, 20 minutes; BENCH_ARGS="-base OTHER_BUILD" compares)
	$(GO) run ./internal/bench/analysis $(BENCH_ARGS)

.PHONY: bench-analysis
bench-analysis: ## only what reading takes (BENCH_ARGS="-base OTHER_BUILD" compares before and after, in pairs)
	$(GO) run ./internal/bench/analysis -parts reading $(BENCH_ARGS)

.PHONY: corpus
corpus: build ## write all that is said of the recordings in CORPUS (default: made-up ones) to bin/corpus, to compare two builds by diff -r
	@$(GO) build -o bin/corpustool ./internal/corpus
	@test -n "$(CORPUS)" || bin/corpustool -make bin/recordings
	bin/corpustool -bin bin/profinfer -o bin/corpus $(or $(CORPUS),bin/recordings)

.PHONY: install-deps
install-deps: ## install what tests and generating need (root; apt)
	@scripts/deps.sh ci

.PHONY: web
web: web/node_modules ## bundle the report's page (web/) into views/report/bundle: needs Node.js and npm
	cd web && node check.mjs && node build.mjs

web/node_modules: web/package-lock.json
	cd web && npm ci --ignore-scripts --loglevel error
	@touch $@

.PHONY: bench-report
bench-report: build browser ## measure the page of a recording in Chromium: size, time to first view, layout, frames (FILE=run.pinf)
	@test -n "$(FILE)" || { echo "make bench-report FILE=run.pinf" >&2; exit 2; }
	node web/test/bench.mjs bin/profinfer "$(FILE)"
