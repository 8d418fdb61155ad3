# Every target stands alone: it makes .venv when that is missing or its requirements changed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CASES  ?= $(or $(GITSYNC_CONFORMANCE),../shared/conformance)
WORKERS ?= 2

.PHONY: run test check fmt bench conformance faults image clean

$(READY): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gitsync needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing the requirements into $(VENV): the first time this downloads about 200 MB and takes a minute or two"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) ## the sandbox, a demo repository, the controller and the dashboard; APP=file.yaml with KUBECONFIG: a real cluster
ifdef APP
	@echo "Applying $(APP), then starting the controller and the dashboard"
	@$(BIN)/gitsync run --application $(APP)
else
	@echo "Starting the sandbox cluster, the demo repository, the controller and the dashboard"
	@$(BIN)/gitsync demo
endif

test: $(READY) ## all tests
	@echo "Running all tests in $(WORKERS) processes; WORKERS=N changes that"
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## ratios against the named peer, measured in the same run
	$(BIN)/python -m bench $(ARGS)

conformance: $(READY) ## CASES=DIR: one suite's folder, or a folder of such folders
	@$(BIN)/python -m tests.run_conformance $(CASES)

faults: $(READY) ## more crash schedules than the suite runs
	GITSYNC_FAULTS=all $(BIN)/python -m pytest -n $(WORKERS) tests/faults

image: ## the container image
	docker build -t gitsync .

clean:
	rm -rf $(VENV) .gitsync .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist
