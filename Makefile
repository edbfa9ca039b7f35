# Everything that one does with this repository. `make help` lists it.
SHELL := /usr/bin/env bash -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help

ROOT    := $(CURDIR)
OUTPUT  := $(ROOT)/_output
BIN     := $(OUTPUT)/bin
MODULE  := github.com/proviso-authz/proviso
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || true)
GITVERSION = v0.1.0-dev.$(VERSION)
LDFLAGS = -s -w -X $(MODULE)/pkg/version.gitVersion=$(GITVERSION) -X $(MODULE)/pkg/version.gitCommit=$(COMMIT)

# How long `make fuzz` runs each target.
FUZZTIME  ?= 30s
# How long `make bench` runs each benchmark, and how often.
BENCHTIME ?= 1s
BENCHCOUNT ?= 1

# All that is compiled has the same flags, so that servers, tests and the control plane share what they have in common. Only the race detector
# needs cgo.
export GOFLAGS ?= -buildvcs=false -trimpath
export CGO_ENABLED ?= 0

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build proviso-apiserver and the plugin kubectl-proviso into _output/bin.
	@mkdir -p $(BIN)
	@for name in proviso-apiserver kubectl-proviso; do \
	  echo "building $${name} …"; \
	  go build -ldflags '$(LDFLAGS)' -o $(BIN)/$${name} ./cmd/$${name}; \
	done

.PHONY: man
man: ## Write the manual pages of the plugin into _output/man.
	cd hack/release && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run ./man $(OUTPUT)/man

# The tag of `make release`, such as v0.1.0.
TAG ?=
# The name of the image without a tag, which manifests of a release have.
IMAGE ?= ghcr.io/proviso-authz/proviso-apiserver
# The release that `make verify-release` verifies.
DIR ?= $(OUTPUT)/release
RELEASEFLAGS = -root $(ROOT) -image '$(IMAGE)' -tag '$(GITVERSION)' -ldflags '$(LDFLAGS)'

.PHONY: image
image: ## Write the image of the server for linux/amd64 and linux/arm64, and its bill of materials, into _output/image.
	cd hack/release && go run . image $(RELEASEFLAGS) -dir $(OUTPUT)/image

.PHONY: release
release: GITVERSION = $(TAG)
release: export RELEASE = $(value TAG)
release: ## Write all files of the release TAG into _output/release, and verify them.
	@[[ $${RELEASE} =~ ^v[0-9A-Za-z.+-]+$$ ]] || { echo "TAG must be a semantic version, such as v0.1.0" >&2; exit 1; }
	cd hack/release && go run . write $(RELEASEFLAGS) -dir $(OUTPUT)/release

.PHONY: verify-release
verify-release: ## Verify the files of a release in DIR: hashes, the image, manifests, the chart, bills of materials, provenance and versions.
	cd hack/release && go run . verify -dir $(abspath $(DIR))

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and kubectl into _output/bin.
	@hack/controlplane/build.sh

.PHONY: controller-manager
controller-manager: ## Build kube-controller-manager into _output/bin, for the tests that need it.
	@hack/controlplane/build.sh kube-controller-manager

.PHONY: oldest
oldest: ## Build the kube-apiserver of the oldest Kubernetes with which Proviso works into _output/bin.
	@hack/controlplane/build.sh kube-apiserver-oldest

# What `make demo` shows: nothing for a control plane with all features, or managed for one without flags for Proviso.
MODE ?=
# The kube-apiserver of MODE=managed: oldest or newest.
KUBERNETES ?= oldest

.PHONY: demo
demo: controlplane build ## Start everything and walk through the main job; leaves it running. MODE=managed: a cluster without flags for Proviso.
ifeq ($(MODE)-$(KUBERNETES),managed-oldest)
	@hack/controlplane/build.sh kube-apiserver-oldest
endif
	$(if $(filter-out managed,$(MODE)),$(error MODE must be empty or managed))
	@KUBERNETES=$(KUBERNETES) hack/demo$(if $(MODE),-$(MODE)).sh

.PHONY: first-minutes
first-minutes: ## Try what newcomers do: the demo, its commands and those of the documents pasted, the demo again.
	@hack/first-minutes.sh

.PHONY: node
node: image ## Start a real node as root, to install the image in; the first time it is built, which takes minutes.
	@hack/node/build.sh
	@hack/node/node.sh up

.PHONY: down
down: ## Stop what demo and node started, and remove their files.
	@hack/dev-down.sh

.PHONY: certs
certs: ## Make the CAs and certificates for the manifests in artifacts/.
	@go run ./hack/certs artifacts/base/certs artifacts/front-door/certs

# Packages whose tests run with the race detector: those with goroutines, or with data that several share. A test in test/architecture
# keeps the list.
RACE := apiserver apiserver/options authorization authorization/engine authorization/webhook barrier/barriercontroller barrier/rollout cluster controller enforcement freshness frontdoor \
  granular granular/changes granular/mapping granular/mappingcontroller innerdoor innerdoor/probe kubectl/cani kubectl/command kubectl/playground kubectl/terminal memo policy policy/typechecking \
  registration slots
UNIT = $$(go list ./... | grep -v -e /test/integration -e /test/e2e -e /test/node)
# Servers and tests collect garbage less often, as long as they are small.
test-unit test-race test-integration test-e2e test-oldest test-versions: export GOGC ?= 400
test-unit test-race test-integration test-e2e test-oldest test-versions: export GOMEMLIMIT ?= 1GiB
# Vet is part of make verify.
GOTEST = go test -count=1 -vet=off

.PHONY: test
test: ## Run what finds the mistakes of this kind of software, end to end included, in 20 minutes.
	@hack/steps.sh test-needs test-unit+test-race+test-modules+test-integration test-e2e

.PHONY: test-all
test-all: ## Run all tests; takes hours. What make test leaves out is in hack/test-all.txt.
	@hack/steps.sh test $$(awk '!/^#/ {print $$2}' hack/test-all.txt)

.PHONY: test-sample
test-sample: ## Run the parts of make test-all that fit into LIMIT seconds, in the order that SEED gives.
	@hack/sample.sh $${SEED:-1} $${LIMIT:-1500}

.PHONY: test-needs
test-needs: ## Say what the machine lacks for the tests.
	@for name in gcc openssl script; do command -v $${name} >/dev/null || echo "$${name} is missing: some tests will fail"; done
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  echo "chromium is missing: the test of the playground will be $(if $(PROVISO_REQUIRE_CHROMIUM),failed,skipped). Install the package chromium"
	@command -v promtool >/dev/null || \
	  echo "prometheus is missing: the tests of the alerts will be $(if $(PROVISO_REQUIRE_PROMETHEUS),failed,skipped). Install the package prometheus"

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go, of packages without goroutines.
	$(GOTEST) -timeout 10m $$(echo $(UNIT) | tr ' ' '\n' | grep -vxF $(RACE:%=-e $(MODULE)/pkg/%))

.PHONY: test-race
test-race: ## Run the tests of packages with goroutines, with the race detector.
	CGO_ENABLED=1 $(GOTEST) -race -timeout 10m $(RACE:%=./pkg/%)

.PHONY: test-race-all
test-race-all: ## Run all unit tests with the race detector.
	CGO_ENABLED=1 $(GOTEST) -race -timeout 60m $(UNIT)

.PHONY: test-cases
test-cases: ## Run the tests that try random cases with all of them, not as many as fit into some seconds.
	PROVISO_CASES=all $(GOTEST) -timeout 60m $$(grep -rl --include='*_test.go' -e 'test/testutil/cases"' -e 'test/places"' pkg | xargs -n 1 dirname | sort -u | sed 's,^,./,')

.PHONY: test-modules
test-modules: ## Run the tests in modules of their own whose inputs have changed.
	@hack/modules.sh

.PHONY: test-rbac
test-rbac: ## Compare converted roles with the authorizer of kube-apiserver, in a module of its own.
	@ALWAYS=1 hack/modules.sh test/bench/rbac

.PHONY: test-release
test-release: ## Check the manual pages, and all files of a release, in a module of its own.
	@ALWAYS=1 hack/modules.sh hack/release

.PHONY: test-browser
test-browser: ## Try the page of kubectl proviso playground in a real Chromium, in a module of its own.
	@ALWAYS=1 hack/modules.sh test/browser

.PHONY: site
site: ## Write the documents as a static site with a search into _output/site.
	@hack/site/build.sh $(OUTPUT)/site https://$(MODULE)

.PHONY: test-site
test-site: site ## Read all pages of the site in a real Chromium: links, contrast, narrow screens, search; takes two minutes.
	cd test/browser && $(GOTEST) -tags site -timeout 10m -run '^TestSite$$' .

.PHONY: pictures
pictures: ## Make the picture of the playground in docs/pictures again; needs Chromium.
	@mkdir -p $(OUTPUT)/pictures
	cd test/browser && PROVISO_REQUIRE_CHROMIUM=1 PROVISO_PICTURES=$(OUTPUT)/pictures go test -count=1 -timeout 5m .
	cp $(OUTPUT)/pictures/light-1100.png docs/pictures/playground.png

.PHONY: recording
recording: ## Make the recording of the demo in docs/pictures again; leaves the demo running.
	@mkdir -p $(OUTPUT)/pictures
	@$(MAKE) --no-print-directory demo MODE= | tee $(OUTPUT)/pictures/demo.txt
	go run ./hack/recording <$(OUTPUT)/pictures/demo.txt >$(OUTPUT)/pictures/demo.svg
	cp $(OUTPUT)/pictures/demo.svg docs/pictures/demo.svg

.PHONY: dashboard
dashboard: controlplane build ## Make the picture of the dashboard in docs/pictures again, from what make test-alerts causes; needs Prometheus.
	@mkdir -p $(OUTPUT)/pictures
	PROVISO_ALERTS=1 PROVISO_REQUIRE_PROMETHEUS=1 PROVISO_PICTURES=$(OUTPUT)/pictures $(GOTEST) -timeout 10m -run '^TestAlerts$$' ./test/e2e/innerdoor
	cp $(OUTPUT)/pictures/dashboard.svg docs/pictures/dashboard.svg

.PHONY: test-integration
test-integration: ## Run the tests of the server in one process with its embedded etcd.
	CGO_ENABLED=1 $(GOTEST) -race -timeout 10m ./test/integration/...

.PHONY: test-e2e
test-e2e: controlplane controller-manager build ## Run the tests against a real kube-apiserver with kubectl.
	$(GOTEST) -p 3 -parallel 2 -timeout 25m ./test/e2e/...

.PHONY: test-oldest
test-oldest: controlplane controller-manager oldest build ## Run the tests of managed clusters against the oldest Kubernetes, too; the first time it is built, which takes minutes.
	PROVISO_KUBERNETES="newest oldest" go test -count=1 -timeout 15m ./test/e2e/managed ./test/e2e/render

# The versions of Kubernetes that `make test-versions` tests.
VERSIONS ?= $(shell awk '/^1/ {print $$1}' hack/controlplane/versions.txt)

.PHONY: test-versions
test-versions: controlplane build ## Run the main tests of managed clusters against VERSIONS, or those between the oldest Kubernetes and the newest; building each takes minutes.
	@hack/steps.sh $(VERSIONS:%=test-version-%)

test-version-%:
	@hack/controlplane/build.sh kube-apiserver-$*
	PROVISO_KUBERNETES=$* $(GOTEST) -timeout 10m -run '^Test(OneDeployment|Table|Uninstall)$$' ./test/e2e/managed

.PHONY: test-alerts
test-alerts: controlplane build ## Run Prometheus beside a control plane: each alert fires after its symptom; takes two minutes.
	PROVISO_ALERTS=1 $(GOTEST) -timeout 10m -run '^TestAlerts$$' ./test/e2e/innerdoor

# The incident, from 1 to 10, that a reader is to find out. Without it, make incidents causes and cures all of them.
N ?=

.PHONY: incidents
incidents: controlplane build ## Cause incident N for a reader, who has its alerts, the runbook and kubectl. Without N, cause and cure all; takes ten minutes.
	PROVISO_READER=$(N) PROVISO_REQUIRE_PROMETHEUS=1 $(GOTEST) -v -tags incidents -timeout $(if $(N),0,40m) -run '^TestIncidents$$$(if $(N),/^$(N)$$)' ./test/e2e/innerdoor

# The directory with the release that `make test-node` installs. Without it, the test installs such files of this tree.
FILES ?=

.PHONY: test-node
test-node: ## Install a release in a real node, as root: the one in FILES, or one of this tree; the first time the node is built, which takes minutes.
	@hack/node/build.sh
ifeq ($(FILES),)
	rm -rf $(OUTPUT)/node-release
	cd hack/release && go run . server $(RELEASEFLAGS) -dir $(OUTPUT)/node-release
endif
	@hack/node/test.sh $(abspath $(or $(FILES),$(OUTPUT)/node-release))

.PHONY: bench
bench: controlplane build ## Run the benchmarks, beside what one would use instead.
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) ./pkg/... ./test/bench/...
	cd test/bench/rbac && go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) .

.PHONY: bench-scale
bench-scale: controlplane build ## Measure a cluster with 10,000 policies, which takes a quarter of an hour.
	PROVISO_POLICIES=$${PROVISO_POLICIES:-10000} go test -run '^$$' -bench 'BenchmarkScale$$' -benchtime 1x -timeout 90m -v ./test/bench

.PHONY: bench-conditions
bench-conditions: ## Compare conditions with ValidatingAdmissionPolicy in 20 runs that take turns.
	@hack/bench-conditions.sh

.PHONY: overload
overload: controlplane build ## Flood kube-apiserver with long selectors: every request must be denied.
	PROVISO_FULL_LOAD=1 go test -count=1 -v -timeout 60m -run '^TestOverload$$' ./test/e2e

.PHONY: lagging
lagging: controlplane build ## Write 100,000 times while policies change and one of two replicas lags by up to 5 s; takes a quarter of an hour.
	PROVISO_FULL_LOAD=1 go test -count=1 -v -timeout 90m -run '^TestLagging$$' ./test/e2e/innerdoor

# How long `make soak` runs.
DURATION ?= 1h

.PHONY: soak
soak: controlplane build ## Kill and stall servers while users write, for DURATION: no write may be lost, or pass against the policies.
	PROVISO_SOAK=$(DURATION) PROVISO_SOAK_SEED=$${SEED:-} go test -count=1 -v -tags soak -timeout 0 -run '^TestSoak$$' ./test/e2e/innerdoor

.PHONY: test-upgrade
test-upgrade: controlplane build ## Replace three replicas of the version in hack/previous.txt by this one, and back, while users write.
	@hack/previous.sh
	PROVISO_PREVIOUS=$(OUTPUT)/previous/proviso-apiserver go test -count=1 -v -tags soak -timeout 30m -run '^TestUpgrade$$' ./test/e2e/innerdoor

.PHONY: test-rotation
test-rotation: controlplane build ## Replace every certificate and CA while users write, without a restart. Takes a quarter of an hour.
	go test -count=1 -v -tags soak -timeout 40m -run '^TestRotation$$' ./test/e2e/innerdoor

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME.
	@hack/fuzz.sh $(FUZZTIME)

# The commit with which `make oracle-places` compares this one, the seed of the cases, and their number.
PLACES_REVISION ?= HEAD
PLACES_SEED     ?= 1
PLACES_CASES    ?= 5000

.PHONY: oracle-places
oracle-places: ## Compare who evaluates conditions with the commit PLACES_REVISION, in PLACES_CASES cases from PLACES_SEED; takes some minutes.
	@hack/oracle-places.sh '$(PLACES_REVISION)' '$(PLACES_SEED)' '$(PLACES_CASES)'

.PHONY: oracle
oracle: ## Compare ORACLE_CASES ways to evaluate expressions at random, from ORACLE_SEED on; takes hours.
	ORACLE_CASES=$${ORACLE_CASES:-10000000} ORACLE_SEED=$${ORACLE_SEED:-1} go test -count=1 -v -timeout 24h -run '^TestOracle$$' ./pkg/cel/partial

.PHONY: barriers-law
barriers-law: ## Compare LAW_POLICIES random policies with their barriers in the admission plugin of kube-apiserver, for LAW_REQUESTS requests each; takes half an hour.
	PROVISO_CASES=all go test -count=1 -v -timeout 6h -run '^Test(Barrier|Group)Law$$' ./pkg/barrier -law-policies $${LAW_POLICIES:-100000} -law-requests $${LAW_REQUESTS:-100} -law-seed $${LAW_SEED:-1} 2>&1 | grep -v -e '^I[0-9]'

.PHONY: mutated-reviews
mutated-reviews: ## Send REVIEW_CASES recorded reviews, changed at random from REVIEW_SEED on, to both doors; takes minutes.
	REVIEW_CASES=$${REVIEW_CASES:-200000} REVIEW_SEED=$${REVIEW_SEED:-1} go test -count=1 -v -timeout 4h -run '^TestMutatedReviews$$' ./pkg/frontdoor

.PHONY: mutants
mutants: ## Take each guard of what decides from the code in turn; a test must notice within a minute.
	MUTANTS=$${MUTANTS:-.} go test -count=1 -v -timeout 5h -run '^TestMutants$$' ./test/mutants

.PHONY: mutants-sample
mutants-sample: ## The same for a fifth of the guards, chosen by SEED.
	MUTANTS_SEED=$${SEED:-1} go test -count=1 -timeout 1h -run '^TestMutants$$' ./test/mutants

.PHONY: next
next: ## Build and unit-test with the next minor version of the Kubernetes libraries, and the Go that it needs.
	@hack/next.sh

.PHONY: generate
generate: ## Generate code, clients and manifests again.
	@for script in hack/update-*.sh; do echo "$${script} …"; "$${script}"; done

.PHONY: verify
verify: ## Check everything that is not a test: generated files, modules, lint.
	@for script in hack/verify-*.sh; do echo "$${script} …"; "$${script}"; done

.PHONY: weight
weight: ## Print the lines of the code and its tests.
	@hack/weight.sh

.PHONY: words
words: ## Print the words of the documents.
	@hack/weight.sh words

.PHONY: lint
lint: ## Run the linters.
	@hack/verify-lint.sh
