"""One physics suite for every preset; later, for every other model behind the same interface."""

import numpy as np
import pytest
import torch

import cliffordstf
from cliffordstf.data.structure import Structure
from cliffordstf.errors import StructureError, UnknownElementError
from cliffordstf.model.presets import PRESETS
from cliffordstf.nn import norm
from cliffordstf.verify import physics
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from tests.equivariance import check_equivariance, equivariance_errors, of_potential

ELEMENTS = (1, 6, 8)
CASES = [(name, {}) for name in PRESETS]
CASES += [("default", {"lmax": lmax}) for lmax in (1, 3, 4)] + [
    ("default", {"pseudoscalar": True, "body_order": 5}),
    ("default", {"layers": 3, "node_lmax": 0}),
]


def make(name: str, overrides: dict, **more) -> cliffordstf.Potential:
    """Narrow version of a preset: the wiring is the same, the suite is quick."""
    return cliffordstf.build(name, elements=ELEMENTS, seed=0, channels=8, hidden=8, **overrides, **more).double()


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]} {case[1] or ''}".strip())
def case(request) -> tuple[str, dict]:
    return request.param


@pytest.fixture
def potential(case) -> cliffordstf.Potential:
    return make(*case)


@pytest.fixture
def conservative(case) -> cliffordstf.Potential:
    return make(*case, forces="conservative")


def test_forces_are_the_gradient_of_the_energy(conservative):
    assert physics.force_error(conservative, random_cluster(ELEMENTS, atoms=6)) < 1e-6
    assert physics.force_error(conservative, triclinic_crystal(ELEMENTS)) < 1e-6


def test_stress_is_the_strain_derivative_of_the_energy(potential):
    assert physics.stress_error(potential, triclinic_crystal(ELEMENTS)) < 1e-5


def test_conservative_forces_add_up_to_zero(conservative):
    forces = conservative.predict(random_cluster(ELEMENTS)).forces
    assert forces.sum(0).abs().max() < 1e-10 * forces.abs().max()


def test_supercell(potential):
    assert physics.supercell_error(potential, triclinic_crystal(ELEMENTS)) < 1e-9


def test_other_cells_of_the_same_crystal(potential):
    assert physics.cell_choice_error(potential, triclinic_crystal(ELEMENTS)) < 1e-9


def test_far_apart_structures_add(potential):
    assert physics.separation_error(potential) < 1e-9


def test_no_leak_between_structures_of_a_batch(potential):
    structures = [random_cluster(ELEMENTS, 5), triclinic_crystal(ELEMENTS), Structure([1], np.zeros((1, 3)))]
    assert physics.batch_error(potential, structures) < 1e-12


@pytest.mark.parametrize("atoms", [1, 2])
def test_atoms_without_neighbours(potential, atoms):
    alone = Structure(np.full(atoms, 8), np.arange(3 * atoms).reshape(atoms, 3) * 50.0)
    prediction = potential.predict(alone)
    assert torch.isfinite(prediction.energy).all()
    assert torch.equal(prediction.forces, torch.zeros(atoms, 3, dtype=torch.float64))


def test_one_atom_in_a_small_cell(potential):
    crystal = Structure([6], np.zeros((1, 3)), np.array([[0, 1.8, 1.8], [1.8, 0, 1.8], [1.8, 1.8, 0]]), True)
    prediction = potential.predict(crystal)
    assert torch.isfinite(prediction.stress).all()
    assert prediction.forces.abs().max() < 1e-10


def test_a_tiny_norm_floor_makes_forces_of_rounding_errors(monkeypatch):
    """Why `NORM_FLOOR` is what it is."""
    fcc = Structure([6], np.zeros((1, 3)), np.array([[0, 1.8, 1.8], [1.8, 0, 1.8], [1.8, 1.8, 0]]), True)
    potential = make("paper/full", {})
    assert potential.predict(fcc).forces.abs().max() < 1e-10
    monkeypatch.setattr(norm, "NORM_FLOOR", 1e-8)
    assert potential.predict(fcc).forces.abs().max() > 1e-3


def test_mixed_periodicity(potential):
    """A slab is what a crystal with an endless third lattice vector is."""
    crystal = triclinic_crystal(ELEMENTS)
    tall = crystal.cell.copy()
    tall[2] *= 40
    slab = Structure(crystal.numbers, crystal.positions, crystal.cell, [True, True, False])
    layered = Structure(crystal.numbers, crystal.positions, tall, True)
    first, second = potential.predict(slab, stress=False), potential.predict(layered, stress=False)
    torch.testing.assert_close(first.energy, second.energy, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(first.forces, second.forces, rtol=1e-10, atol=1e-10)


def test_smoothness_at_the_cutoff(case):
    """`default` is C2: jumps vanish like step³, step² and step. `paper` jumps, as documented, in energy and forces."""
    name, overrides = case
    potential = make(name, overrides)
    coarse, fine = (physics.cutoff_jump(potential, step) for step in (1e-2, 1e-3))
    if name.startswith("default"):
        assert fine.energy < max(coarse.energy / 500, 1e-13)
        assert fine.forces < coarse.forces / 50
        assert fine.curvature < coarse.curvature / 5
    else:
        assert fine.energy > 1e-6
        assert fine.energy > coarse.energy / 2
        assert fine.forces > 1e-6


def test_mirror_images():
    """`default` tells no enantiomers apart; `paper/full` does, through its two parity-breaking terms."""
    cluster = random_cluster(ELEMENTS, atoms=6)
    for lmax in (1, 2, 3, 4):
        check_equivariance(*of_potential(make("default", {"lmax": lmax}), cluster), tolerance=1e-9)
    errors = equivariance_errors(*of_potential(make("paper/full", {}), cluster))
    assert errors.pop("reflection") > 1e-6
    assert max(errors.values()) < 1e-9


def test_unknown_element_is_one_clear_error(potential):
    with pytest.raises(
        UnknownElementError, match=r"holds Fe, which this potential was not built for \(it knows H, C, O\)"
    ):
        potential.predict(Structure([26, 8], [[0, 0, 0], [0, 0, 1.7]], name="rust"))


def test_atoms_on_the_same_spot_are_one_clear_error(potential):
    with pytest.raises(StructureError, match="on the same spot"):
        potential.predict(Structure([1, 1], np.zeros((2, 3))))


def test_nan_positions_are_one_clear_error(potential):
    with pytest.raises(StructureError, match="not a finite number"):
        potential.predict(Structure([1, 1], [[0, 0, 0], [0, 0, np.nan]]))


def test_evaluation_is_deterministic(potential):
    batch = potential.batch([triclinic_crystal(ELEMENTS, seed=seed) for seed in range(3)])
    first, second = potential(batch, stress=True), potential(batch, stress=True)
    assert torch.equal(first.energy, second.energy)
    assert torch.equal(first.forces, second.forces)
    assert torch.equal(first.stress, second.stress)
