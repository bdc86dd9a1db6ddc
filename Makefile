# Two commands do everything on a fresh machine: `make sweep` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup dev system sweep test test-all lint format bench bench-search chaos lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# torch goes first and alone: the release is the lock's, its build (CPU or CUDA) is pip's choice for this machine.
$(VENV)/.runtime: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "batchscout needs Python 3.11 or newer; use make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(shell grep -E '^torch==' requirements.lock)
	$(BIN)/pip install --quiet --constraint requirements.lock --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[dev]'
	@touch $@

setup: $(VENV)/.runtime  ## make .venv with everything a sweep needs

dev: $(VENV)/.dev  ## the same with the tools for tests and lint

system: ## Debian packages for the tests: Slurm, munge, Chromium (needs root)
	tests/install-system-packages

sweep: setup  ## the demo: the whole mountain from 16 to 2048, table and report
	$(BIN)/python sweep.py -m sweep=demo

test: dev system  ## what CI runs: under 10 minutes after installation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow" --durations=15

test-all: dev  ## every test, the long ones included
	tests/install-system-packages all
	$(BIN)/python -m pytest --durations=30

lint: dev  ## ruff, import layers, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: dev  ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev  ## speed and coverage tables
	$(BIN)/python -m bench

bench-search: dev  ## what each search pays and how right it is; FULL=1: every world, written into docs/
	$(BIN)/python bench/search full=$(or $(FULL),0)
	$(BIN)/python bench/search/idle.py
	$(BIN)/python bench/search/decisions.py

chaos: dev system  ## faults at random instants on a real local Slurm
	$(BIN)/python -m bench.chaos

lock: dev  ## rewrite requirements.lock from what is installed
	$(BIN)/pip freeze --exclude-editable | sed -E 's/\+cpu$$//' > requirements.lock

clean:  ## remove the environment and caches, never runs/
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
