.DEFAULT_GOAL := help
# One step at a time: each step uses every core by itself, and a log of two
# steps at once cannot be read.
.NOTPARALLEL:
.DELETE_ON_ERROR:

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# A test that hangs shows its stacks in this time; the slowest package needs a fraction of it.
TEST_TIMEOUT ?= 10m
# The race detector makes the same tests some five times slower.
RACE_TIMEOUT ?= 20m
PACKAGES ?= ./...
BENCH ?= .
SOAK ?= 30m
SOAK_RATE ?= 200
SOAK_CSV ?=
BENCH_COUNT ?= 1

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Everyday

.PHONY: build
build: ## Build bin/oncekeeper
	go build -trimpath -o bin/oncekeeper ./cmd/oncekeeper

.PHONY: test
test: modules postgres curl ## Run every test (needs Go; installs Debian's Postgres where there is none)
	go test -timeout $(TEST_TIMEOUT) $(PACKAGES)

.PHONY: race
race: modules postgres curl ## Run every test under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout $(RACE_TIMEOUT) $(PACKAGES)

# What the proof tries, for how long, and how to run one history again: docs/proof.md.
PROOF_FOR ?= 4m
PROOF = go test ./proof -count 1 -v -timeout 30m

.PHONY: proof
proof: modules postgres ## Prove for ten minutes: random faults on both stores, and rules left out (PROOF_FOR=4m for each store)
	$(PROOF) -proof.histories 100000 -proof.together 4 -proof.operations 2000 -proof.for $(PROOF_FOR) -proof.shops 5 -proof.patience 10m

.PHONY: proof-short
proof-short: modules postgres ## Prove for a minute
	$(PROOF)

.PHONY: bench
bench: modules ## Run the benchmarks (BENCH=regexp BENCH_COUNT=10 PACKAGES=./storage/...)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) $(PACKAGES)

.PHONY: bench-compare
bench-compare: bin/benchstat ## Compare two saved outputs of bench (OLD=file NEW=file)
	bin/benchstat $(OLD) $(NEW)

# Where the stores of growth lie, which all go again, and what grows.
GROWTH_DIR ?= bin/growth
GROWTH ?= callers response tenants keys

.PHONY: growth
growth: build ## Measure how cost grows, check it, and plot it in docs/performance/ (20 minutes, 15 GB of disk, a quiet machine; GROWTH=keys)
	short=0; for by in $(GROWTH); do \
		bin/oncekeeper growth $$by --store pebble:$(GROWTH_DIR) --check --json > bin/growth-$$by.json || short=1; \
		if [ -s bin/growth-$$by.json ]; then mv bin/growth-$$by.json docs/performance/$$by.json; fi; \
	done; \
	$(MAKE) plots; \
	exit $$short

.PHONY: plots
plots: ## Draw docs/performance/*.svg from the reports beside them
	go run ./internal/plots docs/performance/*.json

.PHONY: sweep-proof
sweep-proof: modules postgres ## Sweep two million records under load on each store (half an hour, 10 GB of disk, a quiet machine)
	ONCEKEEPER_SWEEP_RECORDS=2000000 go test -run '^$$' -bench UnderLoad -benchtime 1x -v -timeout 90m ./scenarios/sweeping
	go test -run '^$$' -bench Sweep -benchtime 500000x ./storage/pebble ./storage/postgres

.PHONY: abuse-proof
abuse-proof: modules ## Compare what others wait in quiet and under each kind of abuse (six minutes, a quiet machine)
	go test -run '^$$' -bench UnderAbuse -benchtime 1x -v -timeout 30m ./scenarios/abuse

.PHONY: fuzz
fuzz: modules ## Fuzz every target for FUZZTIME (30s), or those that fit FUZZ=regexp
	tools/fuzz

.PHONY: soak
soak: modules postgres ## Load a server on each store for SOAK (30m) and judge that it stays flat (SOAK_RATE=200 SOAK_CSV=folder)
	go test -count 1 -timeout 0 -v ./scenarios/soak -soak.for $(SOAK) -soak.rate $(SOAK_RATE) -soak.csv '$(SOAK_CSV)'

.PHONY: modules
modules:
	go mod download

# The tests start a server of their own from these binaries, unless
# ONCEKEEPER_TEST_POSTGRES names one. Nothing is installed where they are there.
.PHONY: postgres
postgres:
	tools/postgres

.PHONY: curl
curl:
	tools/curl

.PHONY: test-postgres18
test-postgres18: modules ## Run the tests of the Postgres store on Postgres 18 (needs npm)
	tools/postgres18 go test -timeout $(TEST_TIMEOUT) ./migrations ./storage/postgres

# Checks

.PHONY: lint
lint: bin/golangci-lint ## Check style, formatting, vet and the module files
	bin/golangci-lint run
	go vet ./...
	go mod tidy -diff
	go -C tools mod tidy -diff

.PHONY: proto-lint
proto-lint: bin/buf ## Check the .proto files: lint, format, and what the last release promised
	bin/buf lint
	bin/buf format --diff --exit-code
	tools/proto-breaking

.PHONY: proto-languages
proto-languages: ## Check that a plain protoc makes Java, Kotlin, Python and C# of proto/
	tools/proto-languages

.PHONY: generate-check
generate-check: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc ## Check that the generated code is what its sources give
	tools/generate-check

.PHONY: deploy-check
deploy-check: modules promtool ## Check deploy/: build the image's binary and serve with it, and play the alerts
	tools/deploy-check

.PHONY: promtool
promtool:
	tools/promtool

.PHONY: ci
ci: lint proto-lint generate-check proto-languages deploy-check test race ## Run everything that CI runs

# Generated files

.PHONY: generate
generate: bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc ## Generate Go from the .proto files
	bin/buf generate

.PHONY: metrics-docs
metrics-docs: ## Write docs/metrics.md from the descriptions of the metrics
	go test -count 1 ./cmd/oncekeeper -run PageOfMetrics -update

.PHONY: proto-baseline
proto-baseline: bin/buf ## On a release: make its .proto files what later ones are compared with
	tools/proto-breaking --release

# Tools are built once into bin/, at the versions of tools/go.mod. The time of
# the binary is what make compares, and go leaves it alone where nothing changed.
tool = go -C tools build -o ../bin/ $(1) && touch $@

bin/buf: tools/go.mod tools/go.sum
	$(call tool,github.com/bufbuild/buf/cmd/buf)

bin/protoc-gen-go-grpc: tools/go.mod tools/go.sum
	$(call tool,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

bin/golangci-lint: tools/go.mod tools/go.sum
	$(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

bin/benchstat: tools/go.mod tools/go.sum
	$(call tool,golang.org/x/perf/cmd/benchstat)

# From the main module: so the generator is always of the version of the
# runtime that its code is compiled with.
bin/protoc-gen-go: go.mod
	go build -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go && touch $@
