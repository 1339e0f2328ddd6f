# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help setup demo verify test lint format clean

help:
	@echo "make demo    the main job, end to end"
	@echo "make verify  the coupling table and the symmetries of every preset, proved by numbers"
	@echo "make test    the test suite"
	@echo "make lint    style and type checks"
	@echo "make format  rewrite the code in the project's style"
	@echo "make clean   remove the environment and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "cliffordstf needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/cliffordstf demo

verify: setup
	$(BIN)/cliffordstf verify

test: setup
	$(BIN)/python -m pytest -n $(WORKERS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
