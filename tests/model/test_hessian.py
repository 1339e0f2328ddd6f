import doctest

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule

import cliffordstf
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.model import hessian as module
from cliffordstf.model import potential as potential_module
from tests.equivariance import ATOM_INVARIANTS, HESSIAN, POSITIONS, check_equivariance, equivariance_errors

ELEMENTS = ["H", "C", "O", "Si"]


def build(name: str, **options: object) -> cliffordstf.Potential:
    return cliffordstf.build(name, elements=ELEMENTS, seed=0, energy_scale=3.0, **options)


POTENTIALS = {
    "default": lambda: build("default", channels=16),
    "default/small": lambda: build("default/small"),
    "paper/full": lambda: build("paper/full", forces="conservative", channels=8, hidden=8, layers=2),
    "paper/stf2": lambda: build("paper/stf2", forces="conservative", channels=8, hidden=8, layers=2),
    "repulsion": lambda: build(
        "default/small", channels=8, repulsion="zbl", repulsion_distances={"H-O": 1.3, "Si-Si": 2.6}
    ),
    "mean": lambda: build("default/small", channels=8, pooling="mean"),
}


def water() -> Atoms:
    atoms = molecule("H2O")
    atoms.rattle(0.05, seed=0)
    return atoms


def silicon() -> Atoms:
    atoms = bulk("Si")
    atoms.rattle(0.1, seed=0)
    return atoms


def matrix(hessian: np.ndarray) -> np.ndarray:
    return hessian.reshape(hessian.shape[0] * 3, -1)


def differences(potential: cliffordstf.Potential, atoms: Atoms, step: float = 1e-5) -> np.ndarray:
    """Central differences of the forces, eV/Å²."""
    exact = potential.double()
    rows = []
    for number in range(3 * len(atoms)):
        moved = []
        for sign in (1, -1):
            copy = atoms.copy()
            copy.positions.reshape(-1)[number] += sign * step
            moved.append(exact.predict(copy, stress=False).forces.numpy().ravel())
        rows.append((moved[1] - moved[0]) / (2 * step))
    return np.array(rows)


@pytest.mark.parametrize("make", [water, silicon])
@pytest.mark.parametrize("name", POTENTIALS)
def test_it_is_the_derivative_of_the_forces_symmetric_and_blind_to_translations(name, make):
    potential, atoms = POTENTIALS[name](), make()
    found = potential.hessian(atoms)
    assert found.shape == (len(atoms), 3, len(atoms), 3)
    assert found.dtype == np.float64
    largest = np.abs(found).max()
    assert largest > 1e-3
    np.testing.assert_allclose(matrix(found), matrix(found).T, atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-10 * max(largest, 1))
    np.testing.assert_allclose(matrix(found), differences(potential, atoms), atol=1e-5)


def test_a_trained_model_agrees_with_differences():
    potential, atoms = cliffordstf.load("ethanol-gfn2"), molecule("CH3CH2OH")
    found = matrix(potential.hessian(atoms))
    np.testing.assert_allclose(found, differences(potential, atoms, 1e-4), atol=1e-5)
    assert np.abs(found).max() > 30  # bonds


def test_it_turns_with_the_molecule():
    potential, atoms = build("default/small").double(), water()

    def hessian(numbers: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(potential.hessian(Atoms(numbers.numpy(), positions.numpy())))

    inputs = [(torch.from_numpy(atoms.numbers), ATOM_INVARIANTS), (torch.from_numpy(atoms.positions), POSITIONS)]
    check_equivariance(hessian, inputs, HESSIAN)
    assert equivariance_errors(hessian, inputs, ATOM_INVARIANTS)["rotation"] > 1e-2


@pytest.mark.parametrize("affordable", [0.0, 4.5, 1e6])
def test_memory_decides_how_many_rows_come_from_one_pass_and_nothing_else(affordable, monkeypatch):
    potential, atoms = build("default/small", channels=8), water()
    copies = []
    original = module._copies

    def count(potential, structure, number):
        copies.append(number)
        return original(potential, structure, number)

    monkeypatch.setattr(module, "_copies", count)
    per_copy = module._graph_bytes(potential.double().requires_grad_(False), Structure.from_ase(atoms))
    assert per_copy > 10_000
    found = potential.hessian(atoms, memory=affordable * per_copy)
    assert copies[-1] == {0.0: 1, 4.5: 4, 1e6: 9}[affordable]
    np.testing.assert_allclose(found, differences(potential, atoms).reshape(3, 3, 3, 3), atol=1e-5)


def test_the_potential_is_left_alone_and_its_precision_does_not_matter():
    single, double = build("default/small"), build("default/small").double()
    atoms = water()
    found = single.hessian(atoms)
    assert {parameter.dtype for parameter in single.parameters()} == {torch.float32}
    assert all(parameter.requires_grad and parameter.grad is None for parameter in single.parameters())
    np.testing.assert_allclose(found, double.hessian(atoms), rtol=0, atol=1e-5)
    np.testing.assert_allclose(matrix(found), matrix(found).T, atol=1e-10)
    with torch.inference_mode():
        np.testing.assert_array_equal(single.hessian(Structure.from_ase(atoms)), found)
    with torch.no_grad():
        np.testing.assert_array_equal(single.hessian(atoms), found)


def test_a_supercell_at_its_gamma_point_holds_the_hessian_of_the_cell():
    potential = build("default/small").double()
    cell = silicon()
    found, large = potential.hessian(cell), potential.hessian(cell * (2, 1, 1))
    summed = large[:2].reshape(2, 3, 2, 2, 3).sum(axis=2)
    np.testing.assert_allclose(summed, found, atol=1e-10)


def test_atoms_without_neighbours_have_none():
    potential = build("default/small")
    assert np.array_equal(potential.hessian(Atoms("O")), np.zeros((1, 3, 1, 3)))


def test_mistakes_are_explained():
    with pytest.raises(ConfigError, match="predicts forces directly"):
        build("paper/stf2", forces="direct", channels=8, hidden=8, layers=1).hessian(water())
    with pytest.raises(UnknownElementError, match="holds N"):
        build("default/small").hessian(molecule("NH3"))


def test_the_example_is_right():
    assert doctest.testmod(potential_module).failed == 0
    assert doctest.testmod(potential_module).attempted > 2
