# Every target sets up what it needs from a bare checkout. `make` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
LOCKS := infra/locks
READY := .venv/.ready
UV := $(BIN)/uv
TRAIN := .venv-train
# Neither folder is part of the repository; only the targets that name one need it.
# TRACES: recorded traffic, the files of RECORDED and HOURLY in models/forecaster/training/corpus.py.
TRACES ?= ../shared/traces/dev
# CASES: recorded inputs and answers of the real HPA, *.jsonl or *.jsonl.gz.
CASES ?= ../shared/reference/hpa-golden
BUS ?= kafka
MINUTES ?= 60
FUZZ_EXAMPLES ?= 20000

.PHONY: help setup run test test-pure test-real test-integration test-e2e test-integration-aside test-e2e-aside test-train-aside warm lab-build lab lab-latency lab-nodes checks train-env test-train train-forecaster test-lock-step test-containers test-off-switch test-protocol chaos test-adapters lint types layers presubmit release-check format locks licences sbom audit fuzz \
	docs manifests bench-sim bench-path validate hpa-golden clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv from the locks (instant when nothing changed)

$(READY): pyproject.toml $(LOCKS)/bootstrap.txt $(LOCKS)/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "setup: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
			"name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	@if [ ! -x $(BIN)/python ]; then \
		echo "setup: making .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv .venv; fi
	@if [ ! -x $(BIN)/uv ] || [ $(LOCKS)/bootstrap.txt -nt $(READY) ]; then \
		echo "setup: installing uv"; \
		$(BIN)/python -m ensurepip >/dev/null; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check \
			--require-hashes -r $(LOCKS)/bootstrap.txt; fi
	@echo "setup: installing what $(LOCKS)/dev.txt names"
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes \
		$(LOCKS)/bootstrap.txt $(LOCKS)/dev.txt
	@echo "setup: installing hirl-scale itself, editable"
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

run: setup ## Kafka, every service and a simulated flash sale, live, then the table (BUS=memory: no Java)
	@echo "run: a flash sale, 20 minutes early, on a simulated cluster that our services"
	@echo "control over $(BUS); then the same under a calibrated HPA and the practitioner"
	@$(BIN)/hirl up --scenario flash-sale-20-min-early --seed 10 --apps 155 --lock-step --follow \
		--bus $(BUS) --compare hpa-calibrated,practitioner
	@echo "run: everything is stopped; next, leave a system running: its scenario lasts"
	@echo "three minutes, its services stay until hirl down (docs/guides/running.md);"
	@echo "wait until status says ready before you explain"
	@printf '  $(BIN)/hirl %s\n' "up --apps 155 --speed 30 --detach" status \
		"explain payments-0003" down

test: warm ## run all tests, those on a real Kafka and Prometheus included; on Kubernetes after lab-build
	@$(MAKE) -j3 test-pure test-integration-aside test-e2e-aside

test-pure: setup ## run the tests that need no server
	@echo "test-pure: tests/unit, tests/contract and tests/behaviour"
	@$(BIN)/pytest -q --durations=10 tests/unit tests/contract tests/behaviour

test-real: test-integration test-e2e ## run the tests on a real Kafka, Prometheus and Kubernetes

test-integration: setup ## run those of one or a few parts
	@echo "test-integration: tests/integration"
	@$(BIN)/pytest -q --durations=15 tests/integration

test-e2e: setup ## run those of all processes
	@echo "test-e2e: tests/e2e"
	@$(BIN)/pytest -q --durations=15 tests/e2e

# Several progress displays would mix, so the log of these runs is shown when they end.
test-integration-aside test-e2e-aside test-train-aside: %-aside: setup
	@mkdir -p .hirl
	@echo "$*: in parallel, log in .hirl/$*.log"
	@$(MAKE) $* > .hirl/$*.log 2>&1 || { cat .hirl/$*.log; exit 1; }
	@cat .hirl/$*.log

lab-build: setup ## build etcd, the Kubernetes API server and Helm into a cache (minutes the first time, then nothing)
	@$(BIN)/hirl lab build

lab: lab-build ## on a real API server: 1,000 changes under kills, 1,550 Deployments, 10,000 pods (minutes)
	@HIRL_REQUIRE_REAL=1 HIRL_LAB_CHANGES=1000 HIRL_LAB_APPS=1550 HIRL_LAB_PODS=10000 \
		$(BIN)/pytest -q -o log_cli=true --log-cli-level=INFO tests/integration/test_kubernetes_kills.py \
		tests/integration/test_kubernetes_service.py tests/integration/test_kubernetes_speed.py \
		tests/integration/test_kubernetes_collector.py

lab-latency: lab-build ## from metric to stored change, and the API server's load, with us and with as many HPAs (20 minutes)
	@$(BIN)/python -c "from services.lab import build; build.build(build.CONTROL_PLANE, print)"
	@HIRL_REQUIRE_REAL=1 HIRL_LAB_APPS=$${HIRL_LAB_APPS:-1550} \
		$(BIN)/pytest -q -o log_cli=true --log-cli-level=INFO tests/integration/test_kubernetes_latency.py

# Karpenter listens on all interfaces: in a network namespace of its own nobody reaches it.
lab-nodes: setup ## the provisioner under a real Karpenter (20 minutes the first time)
	@$(BIN)/hirl lab build --all
	@unshare --net --map-root-user sh -c 'ip link set lo up && HIRL_LAB_ALONE=1 HIRL_REQUIRE_REAL=1 \
		$(BIN)/pytest -q -o log_cli=true --log-cli-level=INFO tests/integration/test_kubernetes_karpenter.py'

# Compile kernels once before parallel runs, which would each compile them.
warm: setup
	@echo "warm: compiling the simulator's kernels (minutes the first time, then seconds)"
	@$(BIN)/hirl simulate --scenario calm --controller heuristic:calendar --apps 60 --speed 0 > /dev/null

$(TRAIN)/.ready: $(READY) $(LOCKS)/training.txt
	@echo "train-env: installing what $(LOCKS)/training.txt names in $(TRAIN)"
	@if [ ! -x $(TRAIN)/bin/python ]; then $(UV) venv --quiet --python $(BIN)/python $(TRAIN); fi
	@$(UV) pip sync --quiet --python $(TRAIN)/bin/python --require-hashes $(LOCKS)/training.txt
	@$(UV) pip install --quiet --python $(TRAIN)/bin/python --no-deps --no-build-isolation -e .
	@touch $@

train-env: $(TRAIN)/.ready ## create .venv-train, an environment with torch (several GiB)

test-train: train-env ## run the tests that need torch, including Stable-Baselines3
	@$(TRAIN)/bin/pytest -q tests/unit/models/environments/test_sb3.py \
		tests/unit/models/forecaster/training/test_train.py tests/unit/services/cli/forecast/test_train.py \
		tests/unit/services/cli/forecast/test_published.py tests/unit/models/training

train-forecaster: train-env ## train the shipped forecaster again (TRACES=DIR, up to an hour)
	@$(TRAIN)/bin/hirl train forecaster --traces $(TRACES) --out models/forecaster/shipped

test-lock-step: setup ## compare 180 ticks of 1,550 apps over Kafka with one process, bit for bit (minutes)
	@HIRL_REQUIRE_REAL=1 HIRL_FULL_LOCK_STEP=1 $(BIN)/pytest -q tests/e2e/test_lock_step.py

chaos: setup ## inject faults into a running system for an hour and print what they did (MINUTES=60)
	@$(BIN)/hirl chaos --minutes $(MINUTES) --json .hirl/chaos.json --page .hirl/chaos.md

test-containers: setup ## build the image and run the Compose stack on a real engine (root; half an hour)
	@HIRL_REQUIRE_REAL=1 $(BIN)/pytest -q -o log_cli=true --log-cli-level=INFO tests/containers

test-off-switch: setup ## play a million random histories: nothing that is off is written (half an hour)
	@HIRL_OFF_SWITCH_HISTORIES=1000000 $(BIN)/pytest -q tests/unit/services/actuator/test_objections.py

test-protocol: setup ## explore the actuator's protocol and the breakers further than `make test` does (half an hour)
	@HIRL_PROTOCOL_FURTHER=1 $(BIN)/pytest -q -o log_cli=true --log-cli-level=INFO tests/behaviour/protocol

test-adapters: setup ## run the conformance suite on every Kafka adapter, not only on Faust
	@HIRL_REQUIRE_REAL=1 EVERY_ADAPTER=1 $(BIN)/pytest -q tests/integration/test_conformance.py

lint: setup ## ruff: rules and format; deptry: declared dependencies
	@echo "lint: ruff, deptry"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/deptry schemas models services

types: setup ## mypy --strict
	@echo "types: mypy"
	@$(BIN)/mypy

layers: setup ## import-linter: which package may import which
	@echo "layers: import-linter"
	@$(BIN)/lint-imports --no-logo

licences: setup ## refuse dependencies whose licence was not agreed to
	@$(BIN)/python .ci/supply_chain.py licences

sbom: setup ## write a CycloneDX bill of materials per lock to .hirl/sbom
	@$(BIN)/python .ci/supply_chain.py sbom .hirl/sbom

audit: setup ## ask osv.dev for known vulnerabilities of what the image has (offline: a note)
	@$(BIN)/python .ci/supply_chain.py audit

fuzz: setup ## decode 20,000 fuzzed records per property (minutes; FUZZ_EXAMPLES=N)
	@FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/pytest -q tests/contract/test_fuzz.py

checks: lint types layers licences

presubmit: setup ## everything a change must pass
	@$(MAKE) -j3 checks warm lab-build
	@# Servers and timers are waited for most of the time, so three fit on two cores.
	@$(MAKE) -j3 test-e2e-aside test-integration-aside test-pure test-train-aside

release-check: setup ## whether this commit can be released as the version in pyproject.toml
	@.ci/release-check

format: setup ## fix and format the code
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format

manifests: lab-build ## render the folders of infra/k8s from the chart
	@$(BIN)/python -m services.lab.manifests

docs: setup ## write the generated pages of docs/reference
	@$(BIN)/python -m services.reference.pages

bench-sim: setup ## measure the simulator's speed
	@$(BIN)/hirl bench sim --json .hirl/bench-sim.json

bench-path: setup ## measure the time from a sample to a change over Kafka (about 15 minutes)
	@$(BIN)/hirl bench path --max-apps --json .hirl/bench-path.json

hpa-golden: setup ## compare our HPA with recorded answers of the real one (CASES=DIR)
	@$(BIN)/hirl hpa golden "$(CASES)"

validate: setup ## check the simulated world against theory and real tables
	@$(BIN)/hirl world validate

# The training lock has every package, so the others take their versions from it. Existing pins stay;
# `make locks UPGRADE=--upgrade` moves them all.
COMPILE := $(UV) pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command "make locks" $(UPGRADE)
AGREED := --constraints $(LOCKS)/training.txt

locks: setup ## resolve infra/locks/*.txt from pyproject.toml
	@echo "locks: resolving"
	@$(COMPILE) --group bootstrap -o $(LOCKS)/bootstrap.txt
	@$(COMPILE) pyproject.toml --all-extras -o $(LOCKS)/training.txt
	@$(COMPILE) pyproject.toml --extra serve $(AGREED) -o $(LOCKS)/serving.txt
	@$(COMPILE) pyproject.toml --extra serve --extra report --extra fit --extra gym --extra peers \
		--extra tune --extra stores --extra dev \
		$(AGREED) -o $(LOCKS)/dev.txt

clean: ## remove the environment, results and caches
	rm -rf $${XDG_CACHE_HOME:-$$HOME/.cache}/hirl/kernels $${XDG_CACHE_HOME:-$$HOME/.cache}/hirl/bytecode
	rm -rf .venv $(TRAIN) .hirl .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find services schemas models tests -name __pycache__ -type d -prune -exec rm -rf {} +
