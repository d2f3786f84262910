# What a developer and the build machine run. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS   = -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)

# One version of the linter for everybody: another one finds other things.
GOLANGCI_VERSION := 2.15.0

# The race detector costs five to ten times the time; it runs where goroutines share memory. It needs a C compiler.
RACE          := $(if $(shell command -v gcc clang 2>/dev/null),-race,)
# They are not tested without it besides.
RACE_PACKAGES ?= ./pkg/elect ./pkg/elect/protocol ./pkg/store/memory ./pkg/mutex ./pkg/balancer ./pkg/tasks ./pkg/fence ./internal/guard ./internal/guard/wire ./internal/guard/worker ./internal/status

TEST_FLAGS ?=
# A Ginkgo filter, for example: make e2e E2E_LABELS=sqlite
E2E_LABELS ?=
# Calls, and not seconds: before Go 1.27 the end of a duration may count as a failure (https://go.dev/issue/75804).
FUZZTIME   ?= 5000x
DEV_FLAGS  ?=

# Packages of scenarios with real processes. They mostly wait, so several run beside each other, each in a process of
# Ginkgo's with servers of its own. Those with Label(Fleet) run alone, after the others.
SCENARIOS = ./test/e2e ./test/e2e/faults/process ./test/e2e/faults/mongo ./test/e2e/faults/documents ./test/e2e/faults/sqlite \
	./test/e2e/faults/scale
# How many at once leave the deadlines of a machine with two processors alone: docs/adr/0015-tests-in-three-tiers.md.
PROCS ?= 3
# How often a scenario, or a unit test whose processes must keep time, may be tried: see test/e2e/suite/again.go. Nightly
# has no second attempt.
TRIES ?= 2
GINKGO = go tool ginkgo --procs=$(PROCS) --flake-attempts=$(TRIES) --keep-going --timeout=25m --silence-skips --no-color \
	--output-interceptor-mode=none
# Ginkgo would link the later packages while the first one runs, which takes a processor from its leases.
SCENARIO_TESTS = $(foreach dir,$(SCENARIOS),$(dir)/$(notdir $(dir)).test)
define build_scenarios
$(build_programs); trap 'rm -rf "$$programs" $(SCENARIO_TESTS)' EXIT; \
printf '%s\n' $(SCENARIOS) | xargs -P 2 -I{} sh -c 'go test -c -o "{}/$$(basename "{}").test" "{}"'
endef
# The unit tests that take longest; they begin first, so that the others run beside them.
LONGEST = ./pkg/store/mongo ./pkg/elect/protocol/model ./pkg/elect/internal/simulation ./cmd/shardctl \
	./pkg/store/internal/quorum/failover ./test/linearizability
# Packages of this module with Go files; the end-to-end scenarios have targets of their own.
UNIT = $(LONGEST) $$(go list ./... | grep -vE '/(docs|internal/dev|test/imports|test/e2e(/faults/[a-z]+|/chaos|/kube|/brokers|/stores)?)$$' | \
	grep -vxF "$$(go list $(LONGEST) $(RACE_PACKAGES))")
# Modules of their own: what they need is no business of who imports this one.
NESTED := $(patsubst %/go.mod,%,$(wildcard bench/go.mod image/go.mod helm/tools/go.mod test/alerts/go.mod test/browser/go.mod examples/controller/go.mod \
	$(wildcard test/*/*/go.mod)))

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Every day

.PHONY: dev
dev: ## Real replicas on a SQLite file, with the page on :8080 (DEV_FLAGS="--replicas 3")
	go run ./cmd/shardctl dev $(DEV_FLAGS)

.PHONY: build
build: ## bin/shardctl, static, with its version
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/shardctl ./cmd/shardctl

IMAGE ?= shardctl:$(subst +,_,$(VERSION))
PUSH  ?=

.PHONY: image
image: ## The image for amd64 and arm64 into dist, without Docker (IMAGE=shardctl:dev, PUSH=registry.example/shardctl:dev)
	go -C image run . build --version '$(VERSION)' --revision '$(REVISION)' --tag '$(IMAGE)' $(if $(PUSH),--push '$(PUSH)') \
		--out ../dist/image --archive '../dist/shardctl-{arch}.tar' --sbom '../dist/sbom-{arch}.cdx.json'

# Programs beside the image: replicas run on Linux; the commands that ask a replica run on macOS as well.
DIST_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
CHART_VERSION   = $(patsubst v%,%,$(VERSION))

.PHONY: dist
dist: image ## What a release is made of, in dist: programs with checksums, the image and its SBOMs, the chart (VERSION=v1.2.3)
	@for platform in $(DIST_PLATFORMS); do \
		dir=$$(mktemp -d); os=$${platform%/*}; arch=$${platform#*/}; \
		GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o "$$dir/shardctl" ./cmd/shardctl; \
		cp LICENSE README.md "$$dir"; \
		tar --sort=name --owner=0 --group=0 --mtime=@0 -C "$$dir" -cf - . | gzip -n >"dist/shardctl_$(VERSION)_$${os}_$$arch.tar.gz"; \
		rm -rf "$$dir"; \
	done
	PATH="$$(helm/tools/build.sh):$$PATH" helm package helm/shardctl --destination dist/chart --version '$(CHART_VERSION)' --app-version '$(VERSION)'
	cd dist && sha256sum shardctl_*.tar.gz sbom-*.cdx.json chart/*.tgz >SHA256SUMS

# Jobs of ci or nightly to run; empty: all of them.
JOBS ?=
# For example -record FILE, which has several runs in one table.
JOBS_FLAGS ?=

.PHONY: test
test: ## What to run after a change: unit tests, proofs, histories, each promise on MongoDB and SQLite, a chaos test
	@go run ./test/jobs $(JOBS_FLAGS) test $(JOBS)

.PHONY: ci
ci: ## What .ci/run has besides `make test`: checks, the chart, all scenarios, stores and brokers, the page (JOBS="check chart")
	@go run ./test/jobs $(JOBS_FLAGS) ci $(JOBS)

.PHONY: nightly
nightly: ## Everything, whole, in jobs of at most 25 minutes (JOBS="stores brokers")
	@TEST_FLAGS='$(TEST_FLAGS) -count=1' go run ./test/jobs $(JOBS_FLAGS) -tries 1 nightly $(JOBS)

.PHONY: compile
compile: ## All that the tests are made of
	go list -export -test -deps -f '{{.Export}}' ./... >/dev/null
	$(if $(RACE),go list -export -race -test -deps -f '{{.Export}}' $(RACE_PACKAGES) >/dev/null)

# Without the checks of go vet, which are all in `make check`.
AGAIN = TRIES=$(TRIES) go run ./test/again -vet=off
# No server or other language is looked for, also where one is installed. Those tests are in brokers-short, stores-short
# and clients.
BARE = SHARDCTL_TEST_BROKERS=none SHARDCTL_TEST_SERVERS=none SHARDCTL_TEST_CLIENTS=none

.PHONY: unit
unit: ## All other tests but scenarios: the model, the simulations, histories of ten seconds
	@# Some mostly wait for servers, so three packages go at a time.
	$(BARE) $(AGAIN) -p 3 -timeout 20m $(TEST_FLAGS) -- $(UNIT)

.PHONY: race
race: ## Tests of the packages whose goroutines share memory, under the race detector
	$(if $(RACE),,@echo "cut short: no C compiler, so without the race detector")
	$(BARE) $(AGAIN) $(RACE) -timeout 20m $(TEST_FLAGS) -- $(RACE_PACKAGES)

.PHONY: modules
modules: ## Tests of the modules of this repository that no one imports
	@# They read files of this module, which their cache of results does not follow.
	@# The tests in a browser have a target of their own: page.
	$(foreach module,$(filter-out test/browser,$(NESTED)),go -C $(module) test -count=1 -timeout 20m $(TEST_FLAGS) ./... &&) true

.PHONY: docs
docs: ## Pages and their commands, run as they stand; shardctl dev; what packages import
	@# They ask Go to build or to list packages, which its cache of results does not follow.
	$(BARE) $(AGAIN) -count=1 -timeout 20m $(TEST_FLAGS) -- ./docs ./internal/dev ./test/imports

.PHONY: promises
promises: ## The scenarios of each promise, on MongoDB and on SQLite
	@$(build_scenarios); $(BARE) $(GINKGO) --label-filter='/^P[0-9]+$$/' $(SCENARIO_TESTS)

.PHONY: e2e
e2e: ## All scenarios with real processes and signals, on MongoDB and on SQLite (E2E_LABELS="sqlite && !fleet")
	@$(build_scenarios); $(GINKGO) $(if $(E2E_LABELS),--label-filter='$(E2E_LABELS)') $(SCENARIO_TESTS)

# How long, and which requests: the same seed makes the same.
API_FLAGS ?=

.PHONY: api
api: ## What both listeners answer to requests of schemathesis, against openapi.json (API_FLAGS="-whole -examples 100 -seed 7")
	go run ./test/api $(API_FLAGS)

# States to visit at most in each of the model's scenarios.
STATES ?= 40000000

.PHONY: model
model: ## The search of all states of the protocol, and every weakening caught (STATES=40000000 in each scenario at most)
	go test -v -count=1 -timeout 3h ./pkg/elect/protocol/model -model.states=$(STATES)
	go test -v -count=1 -timeout 1h ./pkg/elect/protocol -run Application -app.states=1000000 -app.schedules=200000
	go test -v -count=1 -timeout 1h ./pkg/store/internal/quorum/failover -model.states=1000000
	go test -v -count=1 -timeout 1h ./pkg/store/internal/quorum/model -model.states=300000 -model.walks=1000000
	go test -v -count=1 -timeout 1h -parallel 2 ./pkg/elect/protocol/model/mutex -model.states=400000

.PHONY: simulation
simulation: ## The simulation at full size: 500 replicas, 100,000 keys, half an hour, 80 faults; and 600 small clusters; ticks, options of locks, weights
	go test -v -count=1 -timeout 3h ./pkg/elect/internal/simulation -run 'Large|Small' -simulation.full
	go test -v -count=1 -timeout 1h ./pkg/tasks -run AgainstAModel -rapid.checks=20000
	go test -v -count=1 -timeout 1h ./pkg/mutex -run Combinations -rapid.checks=10000
	go test -v -count=1 -timeout 1h ./internal/replica -run CommandsAgainstAModel -rapid.checks=3000
	go test -v -count=1 -timeout 1h ./pkg/balancer -run WeightsComeToRest -clusters=6000

BROKEN_FLAGS ?=

.PHONY: broken
broken: ## Breaks each promise once, and says which test of `make test` goes red (BROKEN_FLAGS="-only P1,P6")
	go run ./test/broken $(BROKEN_FLAGS)

# SEED empty: a random one, which is printed.
SECS ?= 600
SEED ?=

.PHONY: chaos
chaos: ## Random faults on real processes (SECS=600 SEED=7)
	go test -v -count=1 -timeout 24h ./test/e2e/chaos -run Chaos -chaos.secs=$(SECS) $(if $(SEED),-chaos.seed=$(SEED))

.PHONY: chaos-short
chaos-short: ## 40 seconds of it under a random seed, which is printed
	@$(build_programs); go test -v -count=1 -timeout 10m ./test/e2e/chaos

# With a cluster of KUBECONFIG, or one made here. Status 3: nothing to make one with.
.PHONY: kube
kube: ## Scenarios of the chart on a real Kubernetes cluster (KUBE_FLAGS=-ginkgo.focus=drained)
	test/e2e/kube/cluster.sh $(KUBE_FLAGS)

.PHONY: kube-if-any
kube-if-any: ## The same, where a cluster can be had without compiling one
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	CLUSTER_RIG_BUILD=$${CLUSTER_RIG_BUILD:-no} test/e2e/kube/cluster.sh $(KUBE_FLAGS) 2>&1 | tee "$$log" || status=$$?; \
	[ "$$status" -ne 3 ] || { printf 'not run: '; tail -n 2 "$$log" | tr '\n' ' '; echo; exit 0; }; \
	exit "$$status"

# For example BROKERS_FLAGS='-brokers.rate=1000 -ginkgo.focus=hundred'. A test that lacks its broker fails.
BROKERS_FLAGS ?=

.PHONY: brokers
brokers: brokers-suites ## Subscriptions to real brokers under faults: a hundred topics of Kafka, ten of each other kind (BROKERS_FLAGS=-brokers.rate=1000)
	@$(build_programs); SHARDCTL_TEST_BROKERS=required go test -v -count=1 -timeout 60m ./test/e2e/brokers -ginkgo.flake-attempts=$(TRIES) $(BROKERS_FLAGS)

.PHONY: brokers-suites
brokers-suites: ## The suite that every source passes, on real brokers
	SHARDCTL_TEST_BROKERS=required $(AGAIN) -p 2 -timeout 30m $(TEST_FLAGS) -- ./test/testbroker/... \
	./pkg/tasks/subscribe/... ./pkg/tasks/discover/listers

.PHONY: brokers-short
brokers-short: brokers-suites ## What is short of it: the suites, and one short scenario of faults for each kind of broker
	@$(build_programs); SHARDCTL_TEST_BROKERS=required \
	go test -v -count=1 -timeout 15m ./test/e2e/brokers -ginkgo.flake-attempts=$(TRIES) -ginkgo.label-filter=short $(BROKERS_FLAGS)

.PHONY: brokers-install
brokers-install: ## What the tests' message brokers need: Debian's packages (as root), Kafka's jars, nats-server
	go run ./test/testbroker/install

# Packages of the stores that need a server of their own. MongoDB and SQLite are in `make test`.
STORE_PACKAGES = ./test/testprocess ./test/testservers/... ./internal/storecopy ./pkg/idempotency/... \
	./pkg/fence/fencesql ./pkg/fence/fenceredis ./examples/fence ./test/mutexes \
	$$(go list ./pkg/store/... | grep -E 'pkg/store/(postgres|mysql|etcd|zookeeper|redis|quorum)(/|$$)')
# Tests of the program on each of them.
PROGRAM_ON_STORES = StoresThatAreRefused|RealClusterOnAServer|LockOnAServer
# Seconds for which histories of each store are recorded.
HISTORIES ?= 40
# Those that need no such server, which make test has.
OTHER_HISTORIES = Memory|Quorum|FallenSums|MongoDB|SQLite|Bad.*|Broken.*|Report

.PHONY: stores
stores: ## The stores that need a server: their suites, histories with faults, and the scenarios on each
	$(MAKE) stores-suites HISTORIES=120
	$(MAKE) e2e-stores

.PHONY: stores-suites
stores-suites: ## The suite that every store passes and histories with faults, on real servers (HISTORIES=40 in seconds)
	@# Stores have no second attempt. They mostly wait, so four packages go at a time.
	SHARDCTL_TEST_SERVERS=required $(AGAIN) -p 4 -timeout 30m $(TEST_FLAGS) -- $(STORE_PACKAGES)
	SHARDCTL_TEST_SERVERS=required go test -count=1 -timeout 15m ./cmd/shardctl ./internal/dev -run '$(PROGRAM_ON_STORES)'
	SHARDCTL_TEST_SERVERS=required go test -v -count=1 -timeout 30m -parallel 4 ./test/linearizability -skip '^Test($(OTHER_HISTORIES))$$' \
		-linearizability.seconds=$(HISTORIES)

.PHONY: stores-short
stores-short: ## What is short of it: the suites, histories of some seconds, one scenario of faults for each store, one failover
	$(MAKE) stores-suites HISTORIES=8
	$(MAKE) e2e-stores E2E_LABELS=short

# For example STORES=postgres; empty: all that need a server.
STORES ?=

.PHONY: e2e-stores
e2e-stores: ## Scenarios with real processes and signals on the stores that need a server (STORES="postgres etcd")
	@$(build_programs); SHARDCTL_TEST_SERVERS=required \
	go test -v -count=1 -timeout 60m ./test/e2e/stores -ginkgo.flake-attempts=$(TRIES) -stores='$(STORES)' \
		$(if $(E2E_LABELS),-ginkgo.label-filter='$(E2E_LABELS)')

.PHONY: stores-install
stores-install: ## What the tests' servers of stores need: Debian's packages (as root, no service is started), etcd
	go run ./test/testservers/install

# For example CLIENTS_FLAGS='-run Libraries/python'. A test that lacks its language fails.
CLIENTS_FLAGS ?=

.PHONY: clients
clients: ## The libraries in Python, TypeScript and Java: the same calls and faults, and their packages (CLIENTS_FLAGS='-run Libraries/java')
	@# Applications mostly wait, so six tests go at a time. They read files that the cache of results does not follow.
	SHARDCTL_TEST_CLIENTS=required $(AGAIN) -count=1 -parallel 6 -timeout 15m $(TEST_FLAGS) $(CLIENTS_FLAGS) -- ./test/clients

.PHONY: clients-install
clients-install: ## What the tests of the libraries need: Debian's packages, as root
	test/clients/install.sh

PAGE_FLAGS ?=

.PHONY: page
page: ## The page in a real Chromium, which is installed where it is missing (PAGE_FLAGS="-write docs/img" makes the screenshots)
	@chromium="$$(test/browser/chromium.sh)"; $(build_programs); \
	CHROMIUM="$$chromium" go -C test/browser test -v -count=1 -timeout 15m . $(PAGE_FLAGS)

.PHONY: bench
bench: ## Print the figures of this machine
	go -C bench run . $(BENCH_FLAGS)

# Pages to write the table into, with the lines <!-- bench-peers: begin --> and <!-- bench-peers: end -->.
PEERS_PAGES ?=

.PHONY: bench-peers
bench-peers: ## Locks of etcd, Redis, Kubernetes and MongoDB beside this one (PEERS_PAGES=docs/comparison.md writes the table there)
	go -C bench run . peers $(BENCH_FLAGS) $(PEERS_PAGES:%=-write '$(CURDIR)/%')

BASELINE ?= HEAD^

.PHONY: bench-compare
bench-compare: ## Another revision and this tree in turn, medians side by side (BASELINE=v0.1.0)
	go -C bench run . compare -baseline '$(BASELINE)' $(BENCH_FLAGS)

.PHONY: fuzz
fuzz: ## Each fuzz target for so many calls (FUZZTIME=100000x)
	@grep -rl --include='*_test.go' '^func Fuzz' cmd internal pkg 2>/dev/null | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(go test -list '^Fuzz' "./$$dir" | grep '^Fuzz'); do \
			echo "== $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "./$$dir"; \
		done; \
	done

##@ What the build machine runs

.PHONY: check
check: verify vet lint build ## Modules, format, vet, lint, build

.PHONY: verify
verify: ## Modules are what go.sum says
	go mod verify

.PHONY: vet
vet: ## gofmt and go vet, tests included
	@out="$$(gofmt -l .)"; \
	if [ -n "$$out" ]; then echo "not formatted (run make fmt):"; echo "$$out"; exit 1; fi
	go vet ./...
	$(foreach module,$(NESTED),go -C $(module) vet ./... &&) true

.PHONY: tools
tools: ## What the checks of the chart and the page need: Debian's packages, as root
	test/tools.sh

.PHONY: lint
lint: ## golangci-lint, with the rules of the layout
	@$(find_lint); echo "$$lint run ./..."; "$$lint" run ./...
	@$(find_lint); for module in $(NESTED); do (cd "$$module" && "$$lint" run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: chart
chart: ## The Helm chart: lint, unit tests, README, Kubernetes 1.29 to 1.36, kube-score, alerts, package (CHART_STEPS=unittest for one)
	helm/tools/chart.sh $(CHART_STEPS)

.PHONY: chart-docs
chart-docs: ## Make the chart's README.md of its values.yaml
	PATH="$$(helm/tools/build.sh):$$PATH" helm-docs --chart-search-root helm/shardctl

.PHONY: schemas
schemas: ## Make the schemas of Kubernetes again, after a version or a kind was added (downloads some 200 MB)
	go -C helm/tools run ./schemas make

.PHONY: fmt
fmt: ## Format all Go files as the linter wants them
	@$(find_lint); "$$lint" fmt ./...

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist

# Builds the programs under test once for all packages of scenarios; they go when the shell ends.
define build_programs
programs=$$(mktemp -d); trap 'rm -rf "$$programs"' EXIT; \
CGO_ENABLED=0 go build -o "$$programs/" ./cmd/shardctl ./test/e2e/recorder; \
export SHARDCTL_E2E_BINARY="$${SHARDCTL_E2E_BINARY:-$$programs/shardctl}" SHARDCTL_E2E_RECORDER="$$programs/recorder"
endef

# Sets $lint to golangci-lint at the version above: one that is installed, else one built into bin (three minutes,
# once).
define find_lint
lint=""; \
for found in "$(CURDIR)/bin/golangci-lint" "$$(command -v golangci-lint || true)" "$$(go env GOPATH)/bin/golangci-lint"; do \
	if [ -x "$$found" ] && "$$found" version --short 2>/dev/null | grep -qx '$(GOLANGCI_VERSION)'; then lint="$$found"; break; fi; \
done; \
if [ -z "$$lint" ]; then \
	echo "building golangci-lint $(GOLANGCI_VERSION) into bin (about three minutes)"; \
	GOBIN="$(CURDIR)/bin" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION); \
	lint="$(CURDIR)/bin/golangci-lint"; \
fi
endef
