# Kernelscope: every command of the project. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
VENV ?= .venv
TORCH ?= 2.13.0
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PYTEST := $(PY) -m pytest -n 2 --dist worksteal --timeout 1200

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

check-tools:
	@command -v g++ >/dev/null && $(PYTHON) -c 'import sysconfig, pathlib, sys; sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' \
		|| { echo 'A C++ compiler and the headers of Python are needed. Install them with:'; echo '  apt-get install -y g++ python3-dev'; exit 1; }

$(STAMP): requirements-dev.txt pyproject.toml | check-tools
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check torch==$(TORCH)
	grep -v '^torch==' requirements-dev.txt > $(VENV)/requirements.txt
	$(PY) -m pip install -q --disable-pip-version-check -r $(VENV)/requirements.txt
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

setup: $(STAMP)  ## create .venv with everything

demo: $(STAMP)  ## compile a small transformer and look at its host program
	$(VENV)/bin/kernelscope demo

test: $(STAMP)  ## the whole test suite but the large zoo and the sweep
	$(PYTEST) -m "not zoo and not sweep and not gpu" tests

lint: $(STAMP)  ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check src tests benchmarks tools
	$(VENV)/bin/ruff format --check src tests benchmarks tools
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test  ## lint and test

golden: $(STAMP)  ## write the golden files anew
	$(PYTEST) --update-golden -k golden tests/unit

zoo-inference: $(STAMP)  ## every architecture of the zoo, inference
	$(PYTEST) -m "zoo and not training" tests

zoo: $(STAMP)  ## every architecture of the zoo, inference and training
	$(PYTEST) -m "zoo" tests

sweep: $(STAMP)  ## PyTorch's operator database against plain Inductor
	$(PY) -m tests.e2e.sweep --jobs 2

bench: $(STAMP)  ## host overhead and compile time, as ratios against Inductor
	$(PY) -m benchmarks.host_overhead
	$(PY) -m benchmarks.compile_time
	$(PY) -m benchmarks.probe_cost
	$(PY) -m benchmarks.trace_store

docs: $(STAMP)  ## generated pages of the documentation
	$(PY) -m tools.environment_page > docs/environment.md
	$(PY) -m tools.ir_page > docs/ir.md

coverage: $(STAMP)  ## docs/coverage.md: plain Inductor and ours run side by side
	$(PY) -m tools.coverage_page > docs/coverage.md

compat:  ## the fast tests under another PyTorch: make compat TORCH=2.11.0
	$(MAKE) VENV=.compat/$(TORCH) TORCH=$(TORCH) .compat/$(TORCH)/.ready
	.compat/$(TORCH)/bin/python -m pytest -n 2 --dist worksteal --timeout 1200 -m "not zoo and not sweep and not gpu and not slow" tests

clean:  ## remove what was built
	rm -rf $(VENV) .compat .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

.PHONY: help check-tools setup demo test lint check golden zoo-inference zoo sweep bench docs coverage compat clean
