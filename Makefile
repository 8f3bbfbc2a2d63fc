# Every target sets itself up: a machine with python3.11+ and nothing else is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

ENGINES ?= sglang vllm llamacpp
# Tests wait for hosts and servers more than they compute: two processes keep two cores busy.
JOBS ?= 2

.PHONY: demo test test-engines check format lint types contracts bench screenshots clean

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tokwatt needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP) ## the whole product on a pretend host; without a terminal, the tour
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/tokwatt demo; else $(BIN)/tokwatt demo --tour; fi

test: $(STAMP) ## the suite
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not real_engine and not gpu"

test-engines: $(STAMP) ## real inference engines on the processor, each in a venv of its own below .venvs/
	$(PYTHON) tests/real_engine/install.py $(ENGINES)
	$(BIN)/python -m pytest -m real_engine tests/real_engine

check: $(STAMP) lint types contracts test ## the whole gate

format: $(STAMP)
	$(BIN)/ruff format console tests
	$(BIN)/ruff check --fix console tests

lint: $(STAMP)
	$(BIN)/ruff format --check console tests
	$(BIN)/ruff check console tests

types: $(STAMP)
	$(BIN)/mypy console tests

contracts: $(STAMP)
	$(BIN)/lint-imports

bench: $(STAMP) ## measured budgets, outside the gate
	$(BIN)/python -m pytest -o addopts= -o timeout=900 -o python_files='test_*.py first_frame.py' -s tests/benchmarks

screenshots: $(STAMP) ## pictures of the demo host
	$(BIN)/python -m console.ui.screenshots

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
