import os
from pathlib import Path

import pytest
import torch
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.io import write

from cliffordstf.verify.structures import random_cluster

# The suite runs one worker per core; more threads per worker would only fight over them.
torch.set_num_threads(1)

# Tests that want other interpreters name them: an environment of peers that happens to lie here changes nothing.
os.environ["CLIFFORDSTF_PYTHONS"] = ""


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def data_directory() -> Path | None:
    """Real benchmark files: CLIFFORDSTF_TEST_DATA, or ../shared/data beside the repository."""
    root = Path(__file__).parents[1]
    given = os.environ.get("CLIFFORDSTF_TEST_DATA")
    path = Path(given) if given else root.parent / "shared" / "data"
    return path if path.is_dir() else None


@pytest.fixture
def real_data() -> Path:
    path = data_directory()
    if path is None:
        pytest.skip("no real data: set CLIFFORDSTF_TEST_DATA to a folder with the public benchmark files")
    return path


@pytest.fixture
def clusters(tmp_path) -> Path:
    """24 clusters of five atoms with energies and forces, as extxyz."""
    images = []
    for seed in range(24):
        structure = random_cluster((18,), atoms=5, seed=seed, spacing=2.4)
        atoms = Atoms(structure.numbers, structure.positions)
        atoms.calc = LennardJones(sigma=2.2, epsilon=0.3, rc=8.0)
        atoms.get_forces()
        images.append(atoms)
    path = tmp_path / "clusters.extxyz"
    write(path, images)
    return path


@pytest.fixture
def options(clusters) -> list[str]:
    """A run of a second or two."""
    return [
        f"data.train={clusters}",
        "data.valid=4",
        "data.test=4",
        "model.preset=default/small",
        "model.channels=4",
        "model.hidden=4",
        "batch_size=4",
        "epochs=4",
        "seed=1",
    ]
