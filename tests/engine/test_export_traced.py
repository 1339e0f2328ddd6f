import pytest
import torch

import cliffordstf
from cliffordstf.engine.traced import batch_tensors, export, program_state
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ELEMENTS = (1, 6, 8)


@pytest.fixture
def potential():
    return cliffordstf.build("default", elements=ELEMENTS, seed=0, channels=8, energy_scale=100.0)


def _clusters(first: int, atoms: int):
    return [random_cluster(ELEMENTS, atoms=atoms + seed, seed=first + seed) for seed in range(3)]


def _check(results, expected, tolerance=1e-5):
    for result, name in zip(results, ("energy", "atom_energies", "forces", "stress"), strict=False):
        torch.testing.assert_close(result.detach(), getattr(expected, name), rtol=0, atol=tolerance, equal_nan=True)


def test_an_exported_program_survives_saving_and_serves_other_sizes(potential, tmp_path):
    program = export(potential, potential.batch(_clusters(0, 6)))
    torch.export.save(program, tmp_path / "potential.pt2")
    loaded = torch.export.load(tmp_path / "potential.pt2").module()
    other = potential.batch(_clusters(7, 9))
    assert potential(other).forces.abs().max() > 0.1
    _check(loaded(program_state(potential), batch_tensors(other)), potential(other))


def test_an_exported_crystal_has_stress(potential):
    example, other = (potential.batch([triclinic_crystal(e), triclinic_crystal((6,))]) for e in (ELEMENTS, (1, 8)))
    program = export(potential, example, stress=True)
    _check(program.module()(program_state(potential), batch_tensors(other)), potential(other, stress=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of PyTorch's own imports
def test_the_program_compiles_ahead_of_time(potential, tmp_path):
    """AOTInductor's code calls the registered operators and gives the same forces."""
    program = export(potential, potential.batch(_clusters(0, 6)))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "potential.pt2"))
    compiled = torch._inductor.aoti_load_package(package)
    other = potential.batch(_clusters(7, 9))
    _check(compiled(program_state(potential), batch_tensors(other)), potential(other))
