"""Without a compiler everything runs in plain PyTorch, and says so once."""

import os
import subprocess
import sys

import numpy as np
import pytest

import cliffordstf
from cliffordstf.kernels import kernel_name
from cliffordstf.verify.structures import random_cluster

SCRIPT = """
import logging
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import torch, cliffordstf
from cliffordstf.kernels import kernel_name
from cliffordstf.verify.structures import random_cluster
potential = cliffordstf.build("default", elements=(1, 6, 8), seed=0, channels=8)
for each in (potential, potential.double()):
    forces = each.predict(random_cluster((1, 6, 8), atoms=6)).forces
print(kernel_name(dtype=torch.float32), kernel_name(dtype=torch.float64))
print(*forces.flatten().tolist())
"""


@pytest.mark.skipif(kernel_name() != "compiled", reason="there is nothing to compare with")
def test_a_machine_without_a_compiler(tmp_path):
    environment = {**os.environ, "CXX": str(tmp_path / "no-compiler"), "CLIFFORDSTF_CACHE": str(tmp_path / "cache")}
    environment.pop("CLIFFORDSTF_KERNELS", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    names, forces = done.stdout.splitlines()
    assert names == "reference reference"
    said = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(said) == 1
    assert "no C++ compiler was found (set CXX or install g++)" in said[0]
    assert "plain PyTorch is used instead" in said[0]
    potential = cliffordstf.build("default", elements=(1, 6, 8), seed=0, channels=8).double()
    expected = potential.predict(random_cluster((1, 6, 8), atoms=6)).forces.flatten()
    np.testing.assert_allclose(np.array(forces.split(), dtype=float), expected, rtol=1e-9, atol=1e-11)
