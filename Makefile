# Two commands for a newcomer: `make up` shows this machine's labels, `make test` runs everything.
# Each sets up what it needs by itself; the second run is fast.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
STATE ?= .state
DOCKER ?= docker
LOADER ?= kind
IMAGES := worker master gfd
TAG ?= $(shell sed -n 's/^appVersion: //p' deploy/helm/node-feature-discovery/Chart.yaml)
load = $(if $(filter minikube,$(LOADER)),minikube image load $(1) --profile $(or $(CLUSTER),minikube),kind load \
	docker-image $(1) --name $(or $(CLUSTER),kind))
TO = $(if $(REGISTRY),--registry=$(REGISTRY)) $(if $(PYTHON_IMAGE),--base=$(PYTHON_IMAGE)) \
	$(if $(COSIGN_KEY),--cosign-key=$(COSIGN_KEY))

.DEFAULT_GOAL := help
.PHONY: help up test programs dev install-test cluster check format generate bench chaos fuzz vm peers images kind-load lock version release publish clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: $(VENV)/.runtime ## label a Node object for this machine and keep watching (press Ctrl-C to stop)
	@$(BIN)/nfd up --nodes $(STATE)/nodes $(ARGS)

test: $(VENV)/.dev ## run all tests, a real kube-apiserver and etcd included
	@$(BIN)/python -m tests.controlplane.build
	@$(BIN)/python -m tests.compat.build
	@$(BIN)/python -m tests.planners.build > /dev/null
	@$(BIN)/python -m tests $(ARGS)

programs: $(VENV)/.dev ## build what only some tests need: scheduler, controller manager, NFD 0.19
	@$(BIN)/python -m tests.controlplane.build etcd kube-apiserver kube-controller-manager kube-scheduler > /dev/null
	@$(BIN)/python -c 'from tests.nfd019 import ensure; ensure("nfd-worker"), ensure("nfd-master")'

dev: $(VENV)/.dev ## everything that work on the project needs: tools, commit hook, control plane
	@$(BIN)/pre-commit install
	@$(BIN)/python -m tests.controlplane.build

install-test: $(VENV)/.dev ## install the chart on a test control plane of its own, and label a node there
	@$(BIN)/python -m tests.deploy.install

cluster: $(VENV)/.dev ## a cluster to try things on: real control plane, recorded GPU nodes (press Ctrl-C to stop)
	@$(BIN)/python -m tests.controlplane.build etcd kube-apiserver kube-controller-manager kube-scheduler > /dev/null
	@$(BIN)/python -m tests.docs.cluster $(STATE)/cluster

fuzz: $(VENV)/.dev ## feed each parser INPUTS odd inputs (1000000); TARGET=name, SEED=text; call again to go on
	@$(BIN)/python -m tests.fuzz --inputs=$(or $(INPUTS),1000000) --seed=$(SEED) $(TARGET)

check: $(VENV)/.dev ## lint, types, import contracts, generated files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.checks
	@$(BIN)/python -m bench.guard

format: $(VENV)/.dev ## rewrite sources in the common layout
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: $(VENV)/.dev ## write generated files anew (gRPC code, reference pages)
	@$(BIN)/python -m tests.checks --write

bench: $(VENV)/.dev ## measure memory, CPU and requests; prints one table
	@$(BIN)/python -m bench

chaos: $(VENV)/.dev ## break everything at random for SECONDS (600), as SEED (1) says; see docs/testing.md
	@$(BIN)/python -m tests.controlplane.build
	@$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1) $(ARGS)

vm: $(VENV)/.dev ## boot emulated machines of many kinds, plug and unplug; prints one table
	@$(BIN)/python -m tests.controlplane.build
	@NFD_VM=1 $(BIN)/python -m pytest tests/vm $(ARGS)

peers: $(VENV)/.dev ## take over from the real NFD and GFD, and back, run the GPU operator; PROGRAMS=DIR has the last two
	@$(BIN)/python -m tests.controlplane.build > /dev/null
	@NFD_PEERS=$(or $(PROGRAMS),.state/peers) $(BIN)/python -m pytest -q -rs tests/peers $(ARGS)
	@$(MAKE) --no-print-directory generate

images: ## build the three images for this machine with DOCKER (docker), as localhost/nfd-…:TAG
	@for name in $(IMAGES); do \
		$(DOCKER) build --file Dockerfile.$$name --tag localhost/nfd-$$name:$(TAG) \
			$(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE)) . || exit; done

kind-load: images ## build the images and load them into a kind cluster, CLUSTER (kind); minikube with LOADER=minikube
	@for name in $(IMAGES); do $(call load,localhost/nfd-$$name:$(TAG)) || exit; done
	@echo "loaded; install with: helm install nfd deploy/helm/node-feature-discovery" \
		"-n node-feature-discovery --create-namespace --set image.registry=localhost"

lock: $(VENV)/.dev ## pin the versions that were tested together, and the hashes of what images contain
	@$(PIP) freeze --all --exclude-editable --exclude pip --exclude wheel > constraints.txt
	@$(BIN)/python -m release.lock

version: $(VENV)/.dev ## write VERSION, such as 1.0.0-rc1, wherever the files say theirs
	@$(BIN)/python -m release.version $(VERSION)

release: $(VENV)/.dev ## build and check into dist/ all that is published as VERSION; see docs/releasing.md
	@$(BIN)/python -m release $(VERSION) $(TO) $(if $(RELEASE_URL),--url=$(RELEASE_URL)) \
		$(if $(BUILDER_ID),--builder=$(BUILDER_ID)) $(ARGS)

publish: $(VENV)/.dev ## push the images and the chart in dist/ to REGISTRY, after `make release`
	@$(BIN)/python -m release.publish $(VERSION) $(TO) $(ARGS)

clean: ## remove the virtual environment and local state
	@rm -rf $(VENV) $(STATE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "creating $(VENV) with $(PYTHON)" >&2
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: install python3-venv" >&2; exit 1; }

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the programs" >&2
	@$(PIP) install --constraint constraints.txt --editable '.[master]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the programs and the development tools" >&2
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.runtime $@
