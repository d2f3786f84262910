# What a developer and the build machine run. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS   = -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)

# Nothing needs a C compiler but the race detector. One setting for all commands, so that they share Go's build cache.
export CGO_ENABLED ?= 0

# One version of the linter for everybody: another one finds other things.
GOLANGCI_VERSION := 2.15.0

# What a suite of tests runs with: docs/adr/0020-go-test.md. Software that a suite needs must be there, and at night
# seeds are random and every suite is whole (WHOLE=1).
WHOLE ?=
comma := ,
suite  = SHARDCTL_TEST=$(1),required$(if $(WHOLE),$(comma)random$(comma)whole)
# Packages whose tests belong to a suite: a file of theirs names it.
in     = $(addprefix ./,$(sort $(dir $(shell grep -rlE --include='*_test.go' --exclude-dir=e2e --exclude-dir=browser \
	--exclude-dir=alerts --exclude-dir=controller '$(1)' cmd docs examples internal pkg test))))
# Test failures as they happen, a line for each package, and a JUnit file for each suite in dist/junit.
GOTEST = go tool -modfile=test/tools/go.mod gotestsum --format=pkgname-and-test-fails --hide-summary=skipped \
	--junitfile='$(CURDIR)/dist/junit/$@.xml' -- -count=1 -vet=off
HISTORY_TESTS = $(subst /$@.xml,/$@-histories.xml,$(GOTEST)) -timeout 30m -parallel 4 ./test/linearizability \
	-linearizability.seconds=$(HISTORIES)
TEST_FLAGS ?=

# Scenarios with real processes: they mostly wait, so several run beside each other, each in a process of Ginkgo's with
# servers of its own. Those that are Serial run alone, after the others.
PROCS ?= 3
GINKGO = go tool ginkgo --procs=$(PROCS) --keep-going --timeout=25m --silence-skips --no-color --output-interceptor-mode=none
# A Ginkgo filter, for example: make scenarios LABELS=sqlite
LABELS ?= $(if $(WHOLE),,!nightly)
# Packages whose goroutines share memory.
RACE_PACKAGES = ./pkg/elect ./pkg/elect/internal/loop ./internal/protocol ./pkg/store/internal/dbstore ./pkg/store/internal/storeuri ./pkg/store/memory ./pkg/mutex ./internal/reconcile ./pkg/tasks ./internal/supervisor ./internal/supervisor/output ./internal/taskrun ./pkg/fence \
	./internal/guard ./internal/guard/wire ./internal/guard/worker ./internal/refusals ./internal/status ./internal/web
# Calls, and not seconds: before Go 1.27 the end of a duration may count as a failure (https://go.dev/issue/75804).
FUZZTIME  ?= 5000x
DEV_FLAGS ?=

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

##@ Tests

.PHONY: test
test: ## What to run after a change: go test ./...
	go test $(TEST_FLAGS) ./...

# In this order: what computes and needs no more than Go, while software for the others is installed; then what waits.
CI      = check modules image-test models race chart processes stores mongo brokers clients page scenarios
NIGHTLY = test $(CI) lint-modules vuln chaos api simulation fuzz broken cluster

.PHONY: ci
ci: ## What .ci/run has beside go test ./...: every suite that the change reaches, with a table of their times
	@test/run.sh --reached $(CI)

.PHONY: nightly
nightly: ## Everything, whole, with random seeds: hours
	@WHOLE=1 test/run.sh $(NIGHTLY)

# Without a search that shows that the simulation can fail: it starts goroutines by the ten thousand, one after the
# other, and the detector has failed a check of its own slots for threads there (tsan_rtl.cpp, kEpochLast).
.PHONY: race
race: race-install ## Tests of packages whose goroutines share memory, under the race detector
	CGO_ENABLED=1 $(GOTEST) -race -timeout 20m -skip '^TestSimulationCanFail$$' $(TEST_FLAGS) $(RACE_PACKAGES)

.PHONY: processes
processes: ## Tests with real processes and signals, or that judge by the wall clock
	$(call suite,processes) $(GOTEST) -p 2 -timeout 20m $(TEST_FLAGS) $(call in,suites\.Processes|test/stale")

.PHONY: mongo
mongo: ## Tests on a real MongoDB, which is fetched where there is none, and a history of it
	$(call suite,mongo) $(GOTEST) -p 3 -timeout 20m $(TEST_FLAGS) $(filter-out %/linearizability/,$(call in,testmongo"))
	$(call suite,mongo) $(HISTORY_TESTS) -run MongoDB

# Seconds for which a history of each store is recorded.
HISTORIES ?= $(if $(WHOLE),120,10)

.PHONY: stores
stores: stores-install ## The stores with a server of their own: their suites, histories, and scenarios on each
	$(call suite,stores) $(GOTEST) -p 4 -timeout 30m $(TEST_FLAGS) $(filter-out %/linearizability/,$(call in,testservers"))
	$(call suite,stores) $(HISTORY_TESTS) -skip MongoDB
	@$(MAKE) stores-scenarios

# For example STORES=postgres; empty: all that need a server.
STORES ?=

# What administrators do to a store under clients that run: connections, sessions, log, layout, settings, secrets.
MAINTENANCE := Distant|Full|Inherited|UserMadeAgain|Replaced|Stale|BrokenLog|HeldLog|Pieces|Dropped
MAINTENANCE := $(MAINTENANCE)|Refused|Settings|ReadOnly|Readers|ReadLock|Standby|Fsync|Renewed|Passwords

.PHONY: maintenance
maintenance: stores-install ## Only those of maintenance, a store at a time (STORES="postgres mongo")
	$(call suite,stores$(comma)mongo) $(GOTEST) -p 1 -timeout 30m $(TEST_FLAGS) -run '^Test($(MAINTENANCE))' \
		$(or $(STORES:%=./pkg/store/%),./pkg/store/...)

.PHONY: stores-scenarios
stores-scenarios: ## Only the scenarios with real processes on these stores (STORES="postgres etcd" LABELS=)
	@$(build_programs); $(call suite,stores$(comma)mongo) go test -v -count=1 -vet=off -timeout 60m ./test/e2e/stores -stores='$(STORES)' \
		-ginkgo.label-filter='$(LABELS)'

.PHONY: stores-install
stores-install: ## What the servers of stores need: Debian's packages (as root, no service is started), etcd
	go run ./test/install stores

# For Ginkgo, for example BROKERS_FLAGS=--focus=hundred.
BROKERS_FLAGS ?=

.PHONY: brokers
brokers: brokers-install ## Subscriptions to real brokers: the suite of each source, and scenarios under faults
	$(call suite,brokers) $(GOTEST) -p 3 -timeout 30m $(TEST_FLAGS) $(call in,testbroker")
	@$(build_programs); $(call suite,brokers) $(GINKGO) --label-filter='$(LABELS)' $(BROKERS_FLAGS) \
		--junit-report=brokers-scenarios.xml --output-dir=dist/junit ./test/e2e/brokers

.PHONY: brokers-install
brokers-install: ## What the message brokers need: Debian's packages (as root), Kafka's jars, nats-server
	go run ./test/install brokers

# For example CLIENTS_FLAGS='-run Libraries/python'.
CLIENTS_FLAGS ?=

.PHONY: clients
clients: clients-install ## The libraries in Python, TypeScript and Java: the same calls and faults, and their packages
	@# Applications mostly wait, so six tests go at a time.
	$(call suite,clients) $(GOTEST) -p 1 -parallel 6 -timeout 15m $(TEST_FLAGS) $(call in,suites\.Clients) $(CLIENTS_FLAGS)

.PHONY: clients-install
clients-install: ## What the tests of the libraries need: Debian's packages, as root
	test/clients/install.sh

.PHONY: scenarios
scenarios: clients-install ## Clusters of real replicas on SQLite and MongoDB, with real signals (LABELS="sqlite && !nightly")
	@$(build_programs); $(call suite,scenarios$(comma)mongo$(comma)clients) $(GINKGO) --label-filter='$(LABELS)' \
		--junit-report=scenarios.xml --output-dir=dist/junit ./test/e2e -- -test.run=TestScenarios

.PHONY: modules
modules: ## Tests of the modules of this repository that no one imports
	$(foreach module,$(filter-out image test/browser,$(NESTED)),go -C $(module) test -count=1 -timeout 20m $(TEST_FLAGS) ./... &&) true

.PHONY: image-test
image-test: ## Images, their SBOMs, and what Docker would make (at night of the real program, compiled twice)
	go -C image test -count=1 -timeout 30m $(TEST_FLAGS) . $(if $(WHOLE),-args -image.real -image.cold)

# How long, and which requests: the same seed makes the same.
API_FLAGS ?=

.PHONY: api
api: ## What both listeners answer to requests of schemathesis, against openapi.json (API_FLAGS="-whole -examples 100 -seed 7")
	go run ./test/api $(API_FLAGS)

.PHONY: models
models: ## The searches of all models (whole at night), and every weakening caught
	$(call suite,models) $(GOTEST) -timeout 30m $(TEST_FLAGS) $(call in,suites\.Models|test/search")
	$(if $(WHOLE),$(MAKE) model)

# States to visit at most in each of the model's scenarios.
STATES ?= 40000000

.PHONY: model
model: ## The largest searches: hours of processor time (STATES=40000000 in each scenario at most)
	go test -v -count=1 -timeout 3h ./internal/protocol/model -model.states=$(STATES)
	go test -v -count=1 -timeout 1h ./internal/protocol -run Application -app.states=1000000 -app.schedules=200000
	go test -v -count=1 -timeout 1h ./pkg/store/internal/failover -model.states=1000000
	go test -v -count=1 -timeout 1h ./pkg/store/internal/ballot/model -model.states=300000 -model.walks=1000000
	go test -v -count=1 -timeout 1h -parallel 2 ./internal/protocol/model/mutex -model.states=400000

.PHONY: simulation
simulation: ## The simulation at full size: 500 replicas, 100,000 keys, half an hour, 80 faults; and 600 small clusters; ticks, options of locks, weights
	go test -v -count=1 -timeout 3h ./pkg/elect/internal/simulation -run 'Large|Small' -simulation.full
	SHARDCTL_TEST=random go test -v -count=1 -timeout 1h ./internal/supervisor/job -run AgainstAModel -rapid.checks=20000
	SHARDCTL_TEST=random go test -v -count=1 -timeout 1h ./pkg/mutex -run Combinations -rapid.checks=10000
	SHARDCTL_TEST=random go test -v -count=1 -timeout 1h ./internal/replica -run CommandsAgainstAModel -rapid.checks=3000
	SHARDCTL_TEST=random go test -v -count=1 -timeout 1h ./pkg/balancer -run WeightsComeToRest -clusters=6000

BROKEN_FLAGS ?=

.PHONY: broken
broken: ## Breaks each promise once, and says which suite goes red, after how long (BROKEN_FLAGS="-only P1,P6")
	go run ./test/broken $(BROKEN_FLAGS)

SECS ?= $(if $(WHOLE),900,600)
SEED ?=

.PHONY: chaos
chaos: ## Random faults on real processes (SECS=600 SEED=7)
	@$(build_programs); $(call suite,scenarios$(comma)mongo) go test -v -count=1 -timeout 24h ./test/e2e/chaos -run Chaos -chaos.secs=$(SECS) $(if $(SEED),-chaos.seed=$(SEED))

# Status 3: nothing to make a cluster with.
.PHONY: cluster
cluster: ## The chart on a real Kubernetes cluster: that of KUBECONFIG, or one made here (KUBE_FLAGS=-ginkgo.focus=drained)
	$(call suite,cluster) test/e2e/kube/cluster.sh $(KUBE_FLAGS)

PAGE_FLAGS ?=

.PHONY: page
page: page-install ## The page in a real Chromium, which is installed where it is missing (PAGE_FLAGS="-write docs/img" makes the screenshots)
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
check: verify lint comments ## Modules, format, vet, lint, names in comments

.PHONY: verify
verify: ## Modules are what go.sum says
	go mod verify

.PHONY: race-install chart-install page-install
race-install chart-install: ## What they need: a C compiler, promtool; Debian's packages, as root
	test/tools.sh
page-install: ## What it needs: npm, Chromium; Debian's packages, as root
	test/tools.sh
	test/browser/chromium.sh

.PHONY: lint
lint: ## golangci-lint, go vet included, with the rules of the layout
	@$(find_lint); echo "$$lint run ./..."; "$$lint" run ./...

.PHONY: comments
comments: ## Names in comments that the code no longer has
	go run ./test/comments .

.PHONY: lint-modules
lint-modules: ## The same for the modules that no one imports: what they are built with takes minutes to read
	@$(find_lint); for module in $(NESTED); do (cd "$$module" && "$$lint" run --config $(CURDIR)/.golangci.yml ./...); done

# Whether it is an error that the database of vulnerabilities cannot be reached.
VULN_REQUIRED ?=
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: vuln
vuln: ## Known vulnerabilities of what our code calls, in all modules; it says where vuln.go.dev cannot be reached
	@if ! curl -fsS --max-time 30 -o /dev/null https://vuln.go.dev/index/db.json; then \
		echo 'vuln: https://vuln.go.dev cannot be reached: nothing was checked' >&2; exit $(if $(VULN_REQUIRED),1,0); \
	fi; \
	for module in . $(NESTED); do echo "== $$module"; go -C "$$module" run $(GOVULNCHECK) -test ./...; done

.PHONY: chart
chart: chart-install ## The Helm chart: lint, unit tests, README, Kubernetes 1.29 and 1.36, alerts, package; at night kube-score and the versions between (CHART_STEPS=unittest for one)
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
