"""Importing the package changes nothing in its host process; training from Python gives back what it changed."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import cliffordstf

SNAPSHOT = """
import json, logging, os, signal, sys, warnings

import ase, numpy, scipy.sparse, scipy.special, torch  # what these change is not ours


def snapshot():
    return {
        "environment": dict(os.environ),
        "path": list(sys.path),
        "import hooks": [repr(hook) for hook in sys.meta_path],
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "deterministic": [torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic],
        "matmul precision": torch.get_float32_matmul_precision(),
        "gradients": torch.is_grad_enabled(),
        # As text: where denormals are flushed, they equal zero.
        "denormals": repr(float(torch.tensor(1e-310, dtype=torch.float64) * 0.5)),
        "random state": torch.get_rng_state().tolist(),
        "numpy": numpy.geterr(),
        "warning filters": [repr(item) for item in warnings.filters],
        "logging": [repr(logging.root.handlers), logging.root.level, logging.root.manager.disable],
        "signals": [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "exception hook": repr(sys.excepthook),
    }


before = snapshot()
{action}
after = snapshot()
print(json.dumps({name: [before[name], after[name]] for name in before if before[name] != after[name]}))
"""

EVERY_NAME = """
import cliffordstf
for name in cliffordstf.__all__:
    getattr(cliffordstf, name)
"""

EVERY_MODULE = """
import importlib, pkgutil
for module in pkgutil.walk_packages(cliffordstf.__path__, "cliffordstf."):
    try:
        importlib.import_module(module.name)
    except cliffordstf.ConfigError as error:
        if "this needs the package" not in str(error):
            raise
"""

RESIDENT = """
import torch


def resident():
    # MB
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1000


def left_of(blocks, megabytes):
    # MB that stay with the process after these blocks were freed
    before = resident()
    filled = [torch.ones(megabytes << 17, dtype=torch.float64) for _ in range(blocks)]
    assert resident() - before > 0.9 * blocks * megabytes
    del filled
    return resident() - before
"""

TRAINING = """
import cliffordstf
from cliffordstf import datasets

torch.set_num_threads(2)
kept, before = [], resident()


def within(share, row):
    kept.append([left_of(20, 8), resident() - before])


cliffordstf.train(
    datasets.path("ethanol_gfn2"), out="run", epochs=1, batch_size=5, threads=3, data__train_size=10, data__valid=5,
    model={"preset": "default/small", "channels": 4, "hidden": 4}, progress=within,
)
print(*kept[0], resident() - before, left_of(1, 400), torch.get_num_threads())
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


def run(program: str, **environment: str) -> str:
    """Standard output of a fresh process, without the settings that the command line hands on to its children."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES")) and name != "GOMP_SPINCOUNT"
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env={**plain, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("action", ["import cliffordstf", EVERY_NAME + EVERY_MODULE], ids=["package", "all of it"])
def test_importing_changes_nothing_in_the_process(action):
    assert json.loads(run(SNAPSHOT.replace("{action}", action))) == {}


def test_the_snapshot_sees_changes():
    action = "os.environ['GOMP_SPINCOUNT'] = '1'; torch.set_flush_denormal(True); warnings.simplefilter('ignore')"
    changed = json.loads(run(SNAPSHOT.replace("{action}", action)))
    assert set(changed) == {"environment", "denormals", "warning filters"}


@needs_glibc
def test_importing_leaves_the_allocator_alone():
    assert float(run(f"{RESIDENT}{EVERY_NAME}print(left_of(36, 8))")) < 30
    keep = "from cliffordstf.host.allocator import keep_freed_memory\nkeep_freed_memory()\n"
    assert float(run(f"{RESIDENT}{keep}print(left_of(36, 8))")) > 250


@needs_glibc
def test_training_keeps_freed_memory_and_threads_for_as_long_as_it_lasts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept, grown_within, grown_after, left_after, threads = map(float, run(RESIDENT + TRAINING).split())
    assert kept > 120
    assert grown_after < grown_within - 120
    assert left_after < 30  # a block larger than what is free of the heap comes from the system again
    assert threads == 2


def test_torch_is_loaded_when_a_name_is_used():
    is_loaded = "print('torch' in sys.modules)"
    program = f"import sys, cliffordstf; {is_loaded}; cliffordstf.Potential; {is_loaded}"
    assert run(program).split() == ["False", "True"]


def test_the_command_sets_openmp_before_torch_is_loaded():
    program = """
import os, sys
import cliffordstf.__main__ as command
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ["GOMP_SPINCOUNT"])
            raise SystemExit
sys.meta_path.insert(0, Stop())
command.main()
"""
    assert run(program).strip() == "100000"
    assert run(program, GOMP_SPINCOUNT="7").strip() == "7"


def test_every_public_name_is_found_and_listed():
    for name in cliffordstf.__all__:
        assert getattr(cliffordstf, name) is not None
    assert set(cliffordstf.__all__) <= set(dir(cliffordstf))
    assert "peers" not in dir(cliffordstf)
    with pytest.raises(AttributeError, match="no attribute 'peers'"):
        _ = cliffordstf.peers


def test_subpackages_are_found_without_an_import_of_their_own():
    program = "import cliffordstf; print(cliffordstf.zoo.names()[0], cliffordstf.datasets.names()[0])"
    assert run(program).split() == ["mace", "ethanol_gfn2"]


def test_peers_are_known_wherever_a_preset_is_looked_up():
    assert run("from cliffordstf.model.presets import preset; print(preset('schnet').name)").strip() == "schnet"


def test_the_installed_command_is_the_one_that_sets_up_the_process():
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'cliffordstf = "cliffordstf.__main__:main"' in text
