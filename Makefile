# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help setup demo verify test lint format peers test-zoo bench-speed bench-rmd17 clean

help:
	@echo "make demo    the main job, end to end"
	@echo "make verify  the coupling table and the symmetries of every preset, proved by numbers"
	@echo "make test    the test suite"
	@echo "make lint    style and type checks"
	@echo "make format  rewrite the code in the project's style"
	@echo "make peers   other people's models, in an environment of their own"
	@echo "make test-zoo     the physics suite on every peer"
	@echo "make bench-speed  our models and the peers timed side by side"
	@echo "make bench-rmd17  DATA=folder of rMD17: the accuracy runs, about ten hours; stop and go on at any time"
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

PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed

peers: $(PEERS_STAMP)

# Two steps, because the peers' own pins contradict each other: see constraints-peers.txt.
$(PEERS_STAMP): pyproject.toml constraints.txt constraints-peers.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e . pytest pytest-xdist
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --no-deps -r constraints-peers.txt
	@touch $(PEERS_STAMP)

test-zoo: peers
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/zoo

bench-speed: peers
	$(PEERS)/bin/cliffordstf bench speed --json results/speed/speed.json
	$(PEERS)/bin/cliffordstf bench table --results results/speed --out docs/speed-measured.md

# One run after the other; what is done is skipped. Two runs at once on one thread each: start the target twice with
# OMP_NUM_THREADS=1.
DATA ?= data/rmd17
bench-rmd17: $(STAMP)
	$(BIN)/cliffordstf bench rmd17 --data $(DATA) --train 50 --budget 10min
	$(BIN)/cliffordstf bench rmd17 --data $(DATA) --train 950 --budget 20min
	$(BIN)/cliffordstf bench rmd17 --data $(DATA) --train 950 --budget 150min --molecules ethanol,aspirin
	$(BIN)/cliffordstf bench table --results results/rmd17 --out docs/rmd17.md

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache
