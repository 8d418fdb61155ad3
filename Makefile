# Every target works from a fresh clone: it makes .venv and installs what it needs when that is missing or has changed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CASES  ?= $(or $(GITSYNC_CONFORMANCE),../shared/conformance)
# Two more than the cores of a small machine: half of the time, tests wait for a poll, a browser or a server.
WORKERS ?= 4

# Stamps: the runtime, and on top of it what `make check` and `make test` need.
RUNTIME := $(VENV)/.runtime
LINT    := $(VENV)/.lint
TEST    := $(VENV)/.test
AGENTS  := $(VENV)/.agents

PINS := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

FUZZ ?= 600
# Of an adversary test: how many sequences, and in how many processes.
SEQUENCES ?= 20000
PROCESSES ?= 2

# Most of a short command is the compilation of what it imports, where the environment keeps Python from storing that.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test audit check fmt bench conformance faults adversary soak fuzz sbom chart release replicas image image-content requirements clean

# Hashed requirements name all packages, so that nothing is resolved (--no-deps): older pips refuse a package with extras once a newer version of
# it is published. Nothing is compiled: of most of the kubernetes package, Python imports no module.
INSTALL = $(PYTHON) tools/install.py $(VENV)

$(RUNTIME): requirements.txt requirements-build.txt requirements-uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gitsync needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(INSTALL) requirements.txt requirements-build.txt --project
	@touch $@

$(LINT): requirements-lint.txt $(RUNTIME)
	@$(INSTALL) requirements-lint.txt
	@touch $@

$(TEST): requirements-test.txt $(AGENTS)
	@$(INSTALL) requirements-test.txt
	@touch $@

$(AGENTS): requirements-agents.txt $(RUNTIME)
	@$(INSTALL) requirements-agents.txt
	@touch $@

run: $(if $(APP),$(RUNTIME),$(AGENTS)) ## the sandbox, a demo repository, the controller and the dashboard; APP=file.yaml with KUBECONFIG: a real cluster
ifdef APP
	@echo "Applying $(APP), then starting the controller and the dashboard"
	@$(BIN)/gitsync run --application $(APP) --controller-rights
else
	@echo "Starting the sandbox cluster, the demo repository, the controller and the dashboard"
	@$(BIN)/gitsync demo
endif

test: $(TEST) ## all tests
	@echo "Running all tests in $(WORKERS) processes; WORKERS=N changes that"
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

audit: $(LINT) ## known vulnerabilities of the dependencies
	$(BIN)/python -m tools.audit_dependencies

check: $(LINT) ## format, lint, types, import contracts, declared dependencies, known vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.format_templates --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/python -m tools.audit_dependencies

sbom: $(LINT) ## the software bill of materials of the container image (CycloneDX): dist/sbom.json
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements requirements-image.txt --pyproject pyproject.toml --output-reproducible --of JSON -o dist/sbom.json

chart: $(RUNTIME) ## the Helm chart of the installation: dist/chart
	$(BIN)/python -m tools.make_chart dist/chart

fmt: $(LINT)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m tools.format_templates

bench: $(TEST) ## ratios against the named peer, measured in the same run
	$(BIN)/python -m bench $(ARGS)

conformance: $(TEST) ## CASES=DIR: one suite's folder, or a folder of such folders
	@$(BIN)/python -m tests.run_conformance $(CASES)

faults: $(TEST) ## more crash schedules than the suite runs
	GITSYNC_FAULTS=all $(BIN)/python -m pytest -n $(WORKERS) tests/faults tests/source/test_fault_schedule.py tests/operator/test_crashes.py tests/operator/test_mutations.py tests/operator/test_traffic.py $(addprefix tests/flow/,test_applicationsets.py test_deletion_crash.py test_disk.py test_moves.py test_fleet_faults.py test_replicas.py)

soak: $(TEST) ## 100,000 reconciles with commits and faults; memory, descriptors, threads, database and files stay flat
	GITSYNC_FAULTS=all $(BIN)/python -m pytest -s tests/flow/test_soak.py

adversary: $(TEST) ## SEQUENCES (20,000) of commits, and of moves of seven actors, that try to reach a right without an approval, in PROCESSES (2) with other seeds
	seed=$$(date +%s); seq $$seed $$((seed + $(PROCESSES) - 1)) | GITSYNC_ADVERSARY=$$(($(SEQUENCES) / $(PROCESSES))) xargs -t -P $(PROCESSES) -I{} \
		$(BIN)/python -m pytest --timeout 3600 --hypothesis-seed {} tests/gate/test_adversary.py tests/gate/test_actors.py

fuzz: $(TEST) ## each target of tests/fuzz for FUZZ seconds (600); no crash, no second, no 256 MiB
	for name in tests/fuzz/corpus/*; do $(BIN)/python -m tests.fuzz $$(basename $$name) --seconds $(FUZZ) || exit 1; done

release: $(TEST) $(LINT) ## VERSION=0.5.0 REGISTRY=registry.example.com/team: a tagged commit, dist/VERSION, and image and chart in the registry; IMAGE_ARCHIVE=FILE where no container engine is
	$(BIN)/python -m tools.make_release "$(VERSION)" "$(REGISTRY)" "$(IMAGE_ARCHIVE)"

replicas: $(TEST) ## the suites of pages, API, browser and commands through two replicas behind one address; needs PostgreSQL
	GITSYNC_TEST_REPLICAS=2 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/server tests/cli tests/browser $(ARGS)

image: ## the container image
	docker build -t gitsync .

image-content: $(TEST) ## what the image contains, without a container engine: built into dist/image, then run read-only as another user
	rm -rf dist/image
	sh tools/make_image_root.sh dist/image
	GITSYNC_TEST_IMAGE=dist/image $(BIN)/python -m pytest tests/image

# The image first: its extras have bounds for libraries that the others have too.
requirements: ## pin and hash the dependencies of pyproject.toml again; needs uv
	uv pip compile pyproject.toml --extra postgresql --extra notify --extra oidc --extra aws --extra azure --extra gcp --extra vault $(PINS) -o requirements-image.txt
	uv pip compile pyproject.toml -c requirements-image.txt $(PINS) -o requirements.txt
	uv pip compile --group installer $(PINS) -o requirements-uv.txt
	uv pip compile --group build -c requirements.txt $(PINS) -o requirements-build.txt
	uv pip compile --group lint -c requirements.txt $(PINS) -o requirements-lint.txt
	uv pip compile pyproject.toml --extra agents -c requirements.txt -c requirements-image.txt $(PINS) -o requirements-agents.txt
	uv pip compile --group test --group browser --group notify --group clients --group fuzz --group postgresql --group signin --group keys -c requirements.txt -c requirements-image.txt -c requirements-agents.txt -c requirements-lint.txt $(PINS) -o requirements-test.txt

clean:
	rm -rf $(VENV) .gitsync .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist
