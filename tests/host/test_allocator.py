import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cliffordstf.host.allocator import free_memory

FAULTS = """
import resource, torch
from cliffordstf.host.allocator import keep_freed_memory
keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = [faults() for _ in range(15)]  # a freed block serves the next only when it has grown together with another
print(max(faults() for _ in range(5)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_block_that_was_freed_is_not_asked_of_the_system_again():
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    asked = {**plain, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    faults = [
        int(subprocess.run([sys.executable, "-c", FAULTS], env=env, check=True, capture_output=True, text=True).stdout)
        for env in (plain, asked)
    ]
    assert faults[0] < 100
    assert faults[1] >= 19  # huge pages of 2 MB at best: the user's own setting is kept


def test_free_memory_is_a_plausible_number():
    if not Path("/proc/meminfo").exists():
        assert free_memory() == math.inf
    else:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert 0 < free_memory() < total


BLOCKS = """
import torch
from cliffordstf.host.allocator import freed_memory_kept, keep_freed_memory

def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1000

def left():
    # MB of a block of 200 MB that stay after it was freed
    before = resident()
    torch.ones(25 << 20, dtype=torch.float64)
    return resident() - before

{action}
"""
NESTED = """
with freed_memory_kept():
    with freed_memory_kept():
        pass
    print(left())
print(left())
"""
FOR_GOOD = """
keep_freed_memory()
with freed_memory_kept():
    pass
print(left())
"""
FAILING = """
@freed_memory_kept()
def fail():
    raise ValueError
try:
    fail()
except ValueError:
    print(left())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.parametrize(
    ("action", "kept"),
    [(NESTED, [True, False]), (FOR_GOOD, [True]), (FAILING, [False])],
    ids=["nested", "for good", "failing"],
)
def test_only_the_outermost_block_restores_the_defaults(action, kept):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    program = [sys.executable, "-c", BLOCKS.replace("{action}", action)]
    found = subprocess.run(program, env=plain, check=True, capture_output=True, text=True).stdout.split()
    assert [float(left) > 100 for left in found] == kept
