# Needs only make, Python 3.11 or newer and the package registries; everything else is fetched into caches.
# `make help` lists the targets of every day, `make help ARGS=all` all of them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dovetail
export PATH := $(CACHE)/bin:$(PATH)
export UV_PYTHON_DOWNLOADS := never
# Each of hundreds of processes would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=
# The Kubernetes of the control plane, as in `make integration KUBERNETES=1.36`; the default of e2e.controlplane.versions if empty.
export DOVETAIL_KUBERNETES := $(KUBERNETES)

ARGS ?=
TESTS ?= tests
OLDEST := $(addprefix tests/, deploy $(addprefix integration/test_, placing.py claim_life_cycle.py device_taints.py missing_rights.py secure_metrics.py))
SEED := $(or $(SEED),$(shell echo $$RANDOM))
PYTEST = $(VENV)/pytest -q --randomly-seed=$(SEED)
UNIT = $(PYTEST) -n auto --dist worksteal -m "not controlplane and not nodes and not neighbours"
# Tests on the API server mostly wait: four processes, each with a control plane of its own, share two cores.
# Their API servers collect garbage a third as often: a tenth less CPU time, for twice the memory, 800 MB each.
CONTROLPLANE = GOGC=300 $(PYTEST) -n 4 --dist worksteal -m controlplane
# One process: tests on real nodes share a control plane and two nodes, which take most of two cores' time to start.
# They build what is missing themselves: where a machine cannot have nodes, nothing is built.
NODES = GOGC=300 $(PYTEST) -n 0
# The cache serves every checkout; one run at a time writes it.
MYPY = $(if $(shell command -v flock),flock $(CACHE)/mypy.lock) $(VENV)/mypy --cache-dir $(CACHE)/mypy
VENV := .venv/bin

.PHONY: help run nodes gpu measure differential reading bench traces neighbours chaos hostile upstream upstream-short perf versions alerts dashboards chart controlplane test unit integration nodes-quick nodes-slow oldest lint types layers format fix config reference api-schema monitoring chart-templates front browser site sync wheel wheel-check sbom image release release-image release-check release-notes sign vulnerabilities workflows

FIRST := run nodes controlplane measure test unit integration fix site release

help: ## List the targets of every day (ARGS=all: all of them)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		[[ "$(ARGS)" != all && " $(FIRST) " != *" $$name "* ]] || printf '  make %-16s%s\n' "$$name" "$$text"; done
	@[[ "$(ARGS)" == all ]] || printf '  make %-16s%s\n' "help ARGS=all" "The other targets, too"

run: sync ## Watch Dovetail schedule the examples on a real control plane (ARGS=--once ends with a summary)
	@$(VENV)/python -m e2e.run $(ARGS)

nodes: sync ## The same with real kubelets, drivers and containers, which print their devices (root; ARGS=--once)
	@$(VENV)/python -m e2e.run --nodes $(ARGS)

gpu: sync ## One container on a real node with an NVIDIA card of this machine, as NVML describes it (root; NVIDIA's driver)
	@uv run --quiet --frozen --isolated --group gpu python -m e2e.nodes.gpu

measure: sync ## Latency, scale, take-over, comparison with kube-scheduler and more; without ARGS the list (ARGS="latency --help")
	@$(VENV)/python -m e2e.measure $(ARGS)

differential: sync ## Which nodes can take a pod, by kube-scheduler and by Dovetail, on thousands of generated cases
	@$(VENV)/python -m e2e.differential $(ARGS)

reading: sync ## Do the API server and simulate read manifests alike? Thousands with mistakes go to both (ARGS="--cases 20000")
	@$(VENV)/python -m e2e.reading $(ARGS)

bench: sync ## How good plans are, how much of it is proven, and what it takes, without a cluster
	@$(VENV)/python -m e2e.bench $(ARGS)

traces: sync ## Public traces, beside simple policies, published results and a bound (ARGS="--traces FOLDER"; docs/traces.md)
	@$(VENV)/python -m e2e.traces $(ARGS)

neighbours: sync ## Tests beside real Kueue and Karpenter (built first where missing, ten minutes the first time)
	@echo "== tests beside real neighbours (SEED=$(SEED))"
	@$(VENV)/python -m e2e.neighbours.programs >/dev/null
	@GOGC=300 $(PYTEST) -n 0 -m neighbours $(if $(filter tests,$(TESTS)),tests/neighbours,$(TESTS)) $(ARGS)

chaos: sync ## Mixed work while everything is killed, stopped and deleted; judged from outside (ARGS="--minutes 60 --nodes 2": two real nodes)
	@$(VENV)/python -m e2e.chaos $(ARGS)

hostile: sync ## Good pods beside hostile tenants and drivers, in one table (ARGS="--objects 1000000": generated objects)
	@$(VENV)/python -m e2e.hostile $(ARGS)

upstream-short: sync ## A few minutes of Kubernetes' own tests with Dovetail
	@echo "== a part of Kubernetes' own tests"
	@$(VENV)/python -m e2e.upstream --short

upstream: sync ## Kubernetes' own scheduler tests, with kube-scheduler and with Dovetail, in one table (ARGS=--help)
	@$(VENV)/python -m e2e.upstream $(ARGS)

perf: sync ## Workloads of Kubernetes' scheduler_perf with kube-scheduler and with Dovetail, in turns (ARGS=--help)
	@$(VENV)/python -m e2e.upstream.perf $(ARGS)

versions: sync ## The tests on the API server with every supported Kubernetes, gates as shipped and on, in one table
	@$(VENV)/python -m e2e.versions $(ARGS)

alerts: sync ## Every alert fires, and stays quiet, in promtool's tests of rules (built first where missing, minutes)
	@$(VENV)/python -m e2e.alerts

dashboards: sync ## Every panel's query returns data from a real Prometheus that scrapes Dovetail (ARGS="--pictures DIR" draws them)
	@$(VENV)/python -m e2e.dashboards $(ARGS)

chart: sync ## Helm lints, renders, installs, upgrades, rolls back and removes the chart on the real API server, beside kustomize
	@$(VENV)/python -m e2e.helm

controlplane: sync ## Start a control plane to try things on; prints its kubeconfig, stays until Ctrl-C (ARGS=--examples: with nodes)
	@$(VENV)/python -m e2e.controlplane $(ARGS)

# Generated examples are the same in each run, so that what lands is judged by its change; `make unit` draws new ones.
# What computes runs beside the tests on the API server, in the time that these wait. It is shown when it has ended.
test: sync lint layers ## Everything that must hold before a commit
	@echo "== types, unit tests and a part of Kubernetes' own tests: beside the tests on the API server"
	@export HYPOTHESIS_PROFILE="$${HYPOTHESIS_PROFILE:-ci}"; shown="$$(mktemp)"; trap 'kill $$! 2>/dev/null || true; rm -f "$$shown"' EXIT; \
	nice -n 2 $(MAKE) types unit upstream-short >"$$shown" 2>&1 & \
	failed=0; $(MAKE) integration oldest || failed=1; $(MAKE) nodes-quick || failed=1; \
	wait $$! || failed=1; cat "$$shown"; exit $$failed
	@echo "== all green"

unit: sync ## Tests that need no control plane (TESTS=path narrows, ARGS=-x and others go to pytest)
	@echo "== unit tests (SEED=$(SEED))"
	@$(UNIT) $(TESTS) $(ARGS)

integration: sync ## Tests on the real API server (built first where missing, minutes the first time)
	@echo "== tests on the real API server (SEED=$(SEED))"
	@$(VENV)/python -m e2e.controlplane.build >/dev/null
	@$(CONTROLPLANE) $(TESTS) $(ARGS)

oldest: sync ## A short set of these tests on the oldest supported Kubernetes
	@echo "== tests on the API server of Kubernetes 1.34 (SEED=$(SEED))"
	@$(VENV)/python -m e2e.controlplane.build 1.34 >/dev/null
	@DOVETAIL_KUBERNETES=1.34 $(CONTROLPLANE) $(OLDEST) $(ARGS)

nodes-quick: sync ## Tests on real nodes: kubelet, containerd, a DRA driver (root; built first where missing, minutes the first time)
	@echo "== tests on real nodes (SEED=$(SEED))"
	@$(NODES) -m "nodes and not slow" $(if $(filter tests,$(TESTS)),tests/nodes,$(TESTS)) $(ARGS)

nodes-slow: sync ## The other tests on real nodes
	@echo "== slow tests on real nodes (SEED=$(SEED))"
	@$(NODES) -m "nodes and slow" $(if $(filter tests,$(TESTS)),tests/nodes,$(TESTS)) $(ARGS)

lint: sync ## Style, complexity, dead code, formatting
	@echo "== lint"
	@$(VENV)/ruff check --quiet .
	@$(VENV)/ruff format --check --quiet . || { $(VENV)/ruff format --check . | sed '$$d'; echo "run: make format"; exit 1; }

types: sync ## Types, strictly
	@echo "== types"
	@mkdir -p $(CACHE)
	@$(MYPY) --no-error-summary

layers: sync ## Who may import whom
	@echo "== layers"
	@output="$$($(VENV)/lint-imports --no-logo --no-cache 2>&1)" || { echo "$$output"; exit 1; }

format: sync ## Format every file
	@$(VENV)/ruff format .

fix: sync ## Apply the linter's safe fixes, then format
	@$(VENV)/ruff check --fix .
	@$(VENV)/ruff format .

config: sync ## Generate config/default.yaml and config/schema.json from the settings
	@$(VENV)/python -m scheduler config --print-default > config/default.yaml
	@$(VENV)/python -m scheduler config --print-schema > config/schema.json

reference: sync ## Generate docs/reference (configuration, commands, series, events, reasons, log) from the code
	@$(VENV)/python docs/reference.py

api-schema: sync ## Generate scheduler/simulation/manifests/api_schema.json from the OpenAPI of each supported Kubernetes
	@$(VENV)/python -m e2e.reading.api_schema

monitoring: sync ## Generate dashboards, and the rules for a Prometheus without the Operator, into deploy/monitoring
	@$(VENV)/python -m e2e.dashboards --write

chart-templates: sync ## Generate the templates and the schema of deploy/chart from deploy
	@$(VENV)/python -m e2e.controlplane.build >/dev/null
	@$(VENV)/python -m e2e.helm --write

front: ## Build scheduler/page/bundle from scheduler/page/front, with the locked npm packages (needs Node.js 20)
	@cd scheduler/page/front && npm ci --silent && npm run --silent build

browser: sync ## Use the pages of `dovetail map` and `dovetail page` in Debian's chromium, and take pictures (ARGS="--pictures DIR"; apt install chromium)
	@uv run --quiet --frozen --isolated --group browser python -m e2e.browser $(ARGS)

site: ## Build the documentation as a website into build/site; a broken link or anchor fails it
	@rm -rf build/site
	@uv run --quiet --frozen --isolated --only-group site sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky \
		--conf-dir docs/site --doctree-dir build/doctrees . build/site
	@ls build/site/index.html

# Releases: docs/releasing.md, and .github/workflows/release.yml, which calls these.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= dovetail:$(VERSION)
SNAPSHOT ?=
# When the image was made, as its configuration says: a commit gives the same image each time.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
# Where a program of a release is, built from the hashes in deploy/build.
TOOL = $(VENV)/python -m e2e.release_tools

wheel: sync ## Build the wheel into dist, with the locked build tools
	@rm -rf dist
	@uv build --quiet --wheel --require-hashes --build-constraints deploy/build/backend.txt --out-dir dist
	@ls dist/*.whl

sbom: sync ## List what the wheel needs in dist/sbom.cdx.json (CycloneDX)
	@mkdir -p dist
	@uv export --quiet --frozen --no-dev --format cyclonedx1.5 --output-file dist/sbom.cdx.json >/dev/null
	@ls dist/sbom.cdx.json

wheel-check: wheel ## Whether uvx and pipx install the wheel of dist and run its commands, in an empty folder
	@uv run --quiet --frozen --isolated --group pipx python -m e2e.installers dist/*.whl

image: wheel ## Build and check the image without a container engine: dist/image, an archive, SBOM (IMAGE=name SNAPSHOT=moment)
	@$(VENV)/python -m e2e.image --wheel dist/*.whl --name "$(IMAGE)" --created "$(SOURCE_DATE_EPOCH)" --snapshot "$(SNAPSHOT)" $(ARGS)

release: sync ## The files of a release in dist: wheel, image, chart, install.yaml, SBOMs, checksums (ARGS=--local IMAGE=name)
	@$(MAKE) image sbom ARGS=
	@$(VENV)/python -m e2e.release --image "$(IMAGE)" $(ARGS)

release-image: ## Build, check and push the image of a release (IMAGE=name SNAPSHOT=20261125T000000Z)
	@[[ "$(SNAPSHOT)" =~ ^[0-9]{8}T[0-9]{6}Z$$ ]] || { \
		echo "SNAPSHOT is no moment of Debian's archive: a release names its packages by one, write SNAPSHOT=\$$(date -u +%Y%m%dT%H%M%SZ)" >&2; exit 1; }
	@$(MAKE) image
	@skopeo copy --quiet --digestfile dist/image.digest oci:dist/image:$(VERSION) docker://$(IMAGE)

release-check: ## Whether version, tag and changelog fit together (TAG=v0.2.0)
	@[ "$(TAG)" = "v$(VERSION)" ] || { echo "TAG is '$(TAG)', and pyproject.toml has version $(VERSION): write TAG=v$(VERSION)" >&2; exit 1; }
	@$(MAKE) release-notes >/dev/null

release-notes: ## Print the changelog of this version
	@awk -v version="[$(VERSION)]" '/^## /{here = $$2 == version; found += here; next} here; END{exit !found}' CHANGELOG.md || \
		{ echo "CHANGELOG.md has no section '## [$(VERSION)]': give it what stands under Unreleased" >&2; exit 1; }

sign: sync ## Sign image, wheel and SBOMs with the identity of the CI job (cosign, keyless)
	@[ -s dist/image.digest ] || { echo "dist/image.digest is missing: run make release-image first" >&2; exit 1; }
	@cosign="$$($(TOOL) cosign)"; image="$(IMAGE)@$$(cat dist/image.digest)"; \
	"$$cosign" sign --yes "$$image"; \
	"$$cosign" attest --yes --type cyclonedx --predicate dist/image.cdx.json "$$image"; \
	for file in dist/*.whl dist/*.cdx.json; do "$$cosign" sign-blob --yes --bundle "$$file.sigstore.json" "$$file"; done

vulnerabilities: sync ## Known vulnerabilities of the locked packages (DATABASE=all.zip: OSV's file, no network)
ifdef DATABASE
	@$(VENV)/python -m e2e.vulnerabilities "$(DATABASE)"
else
	@uv audit --frozen $(ARGS)
endif

workflows: sync ## Check the workflows of the CI
	@tool="$$($(TOOL) actionlint)"; "$$tool"

# The environment. uv is the one on the PATH; where there is none, the pinned one is installed into the cache by the
# first Python that is new enough.
UV := --require-hashes -r deploy/build/uv.txt

sync: ## Make or update the environment in .venv
	@uv --version >/dev/null 2>&1 || { $(INSTALL_UV); }
	@[ -d .venv ] || { $(FIND_PYTHON); export UV_PYTHON="$$(command -v "$$python")"; }; uv sync --frozen --quiet

define FIND_PYTHON
for python in python3.13 python3.12 python3.11 python3 python none; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
done; \
[ "$$python" != none ] || { echo "no Python 3.11 or newer was found: install one, such as python3.11" >&2; exit 1; }
endef

define INSTALL_UV
$(FIND_PYTHON); \
echo "== installing uv into $(CACHE)" >&2; \
mkdir -p "$(CACHE)/bin"; \
if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	"$$python" -m venv --clear "$(CACHE)/uv"; \
	"$(CACHE)/uv/bin/python" -m pip install --quiet --disable-pip-version-check $(UV); \
else \
	PIP_ROOT_USER_ACTION=ignore "$$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$(CACHE)/uv" $(UV) || \
		{ echo "neither venv nor pip works here: install uv, or the package python3-venv" >&2; exit 1; }; \
fi; \
ln -sf "$(CACHE)/uv/bin/uv" "$(CACHE)/bin/uv"
endef
