import doctest
import gc
import tracemalloc

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress

import cliffordstf
from cliffordstf.errors import ConfigError, ModelFileError, StructureError, UnknownElementError
from cliffordstf.integrations import ase as ase_module
from cliffordstf.integrations.ase import Calculator
from cliffordstf.kernels.native.runtime import NativeWorkspace
from cliffordstf.model.file import save_model

ELEMENTS = ["H", "C", "O", "Si"]


@pytest.fixture(scope="module")
def potential() -> cliffordstf.Potential:
    return cliffordstf.build("default/small", elements=ELEMENTS, seed=0, atomic_energies={1: -13.6, 8: -432.1})


@pytest.fixture(scope="module")
def paper() -> cliffordstf.Potential:
    return cliffordstf.build("paper/stf2", elements=ELEMENTS, seed=0, channels=8, hidden=8, layers=2)


def silicon() -> Atoms:
    atoms = bulk("Si", cubic=True)
    atoms.rattle(0.1, seed=1)
    atoms.set_cell(atoms.cell.array + np.array([[0, 0.2, 0], [0, 0, 0.1], [0.3, 0, 0]]), scale_atoms=True)
    return atoms


def test_results_are_those_of_the_potential_in_float64(potential):
    atoms = silicon()
    atoms.calc = Calculator(potential)
    expected = (
        cliffordstf.build("default/small", elements=ELEMENTS, seed=0, atomic_energies={1: -13.6, 8: -432.1})
        .double()
        .predict(atoms)
    )
    assert atoms.get_potential_energy() == pytest.approx(float(expected.energy), abs=1e-12)
    np.testing.assert_allclose(atoms.get_forces(), expected.forces.numpy(), atol=1e-12)
    np.testing.assert_allclose(atoms.get_stress(voigt=False), expected.stress[0].numpy(), atol=1e-14)
    np.testing.assert_allclose(atoms.get_potential_energies(), expected.atom_energies.numpy(), atol=1e-12)
    assert atoms.get_potential_energy(force_consistent=True) == atoms.get_potential_energy()
    assert atoms.get_forces().dtype == np.float64


def test_forces_and_stress_are_derivatives_of_the_energy_in_ase_order_and_sign(potential):
    atoms = silicon()
    atoms.calc = Calculator(potential)
    forces, stress = atoms.get_forces(), atoms.get_stress()
    np.testing.assert_allclose(forces, calculate_numerical_forces(atoms, eps=1e-4), atol=1e-6)
    np.testing.assert_allclose(stress, calculate_numerical_stress(atoms, eps=1e-5), atol=1e-7)
    assert np.abs(stress).min() > 1e-7


@pytest.mark.parametrize("name", ["potential", "paper"])
@pytest.mark.parametrize("make", [silicon, lambda: molecule("CH3CH2OH")], ids=["crystal", "molecule"])
def test_the_skin_changes_nothing_along_a_trajectory(name, make, request):
    model = request.getfixturevalue(name)
    generator = np.random.default_rng(0)
    with_skin, without = make(), make()
    with_skin.calc, without.calc = Calculator(model, skin=0.8), Calculator(model, skin=0.0)
    for _ in range(25):
        step = generator.normal(scale=0.04, size=with_skin.positions.shape)
        with_skin.positions += step
        without.positions += step
        assert with_skin.get_potential_energy() == without.get_potential_energy()
        assert np.array_equal(with_skin.get_forces(), without.get_forces())
        fresh = Calculator(model, skin=0.0)
        assert fresh.get_potential_energy(with_skin) == with_skin.get_potential_energy()
    assert without.calc.neighbours.builds == 25
    assert with_skin.calc.neighbours.builds < 10


def test_stress_and_forces_share_one_evaluation_once_stress_is_used(potential, monkeypatch):
    calls = []
    original = cliffordstf.Potential.forward
    monkeypatch.setattr(cliffordstf.Potential, "forward", lambda *a, **k: (calls.append(k), original(*a, **k))[1])
    atoms = silicon()
    atoms.calc = Calculator(potential)
    for _ in range(3):
        atoms.rattle(0.01, seed=len(calls))
        atoms.get_forces()
        atoms.get_stress()
    assert [call["stress"] for call in calls] == [False, True, True, True]


def test_the_callers_potential_is_left_alone(potential):
    atoms = molecule("H2O")
    for dtype in ("float64", "float32"):
        calculator = Calculator(potential, dtype=dtype)
        calculator.get_forces(atoms)
        assert {p.dtype for p in calculator.potentials[0].parameters()} == {getattr(torch, dtype)}
    assert {p.dtype for p in potential.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in potential.parameters())


def test_float32_is_close_and_keeps_reference_energies_exact(potential):
    atoms = molecule("H2O")
    double, single = Calculator(potential), Calculator(potential, dtype="float32")
    assert single.get_potential_energy(atoms) == pytest.approx(double.get_potential_energy(atoms), abs=1e-5)
    np.testing.assert_allclose(single.get_forces(atoms), double.get_forces(atoms), atol=1e-5)


def test_committee_mean_and_spread(tmp_path):
    members = [cliffordstf.build("default/small", elements=ELEMENTS, seed=seed) for seed in range(3)]
    members[1] = cliffordstf.build("default/small", elements=ELEMENTS, seed=1, cutoff=3.5)
    path = save_model(members[2], tmp_path / "third.safetensors")
    atoms = silicon()
    committee = Calculator([members[0], members[1], path])
    single = [Calculator(member) for member in members]
    energies = [calculator.get_potential_energy(atoms) for calculator in single]
    forces = np.array([calculator.get_forces(atoms) for calculator in single])
    stress = np.array([calculator.get_stress(atoms) for calculator in single])
    assert committee.get_potential_energy(atoms) == pytest.approx(np.mean(energies), abs=1e-12)
    np.testing.assert_allclose(committee.get_forces(atoms), forces.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(committee.get_stress(atoms), stress.mean(axis=0), atol=1e-14)
    assert committee.results["energy_std"] == pytest.approx(np.std(energies, ddof=1))
    np.testing.assert_allclose(committee.results["forces_std"], forces.std(axis=0, ddof=1), atol=1e-12)
    largest = np.linalg.norm(forces.std(axis=0, ddof=1), axis=1).max()
    assert committee.uncertainty == {
        "energy_std": pytest.approx(np.std(energies, ddof=1)),
        "max_force_std": pytest.approx(largest),
    }
    assert largest > 1e-4
    assert single[0].uncertainty == {}


def test_the_hessian_of_an_ensemble_is_the_mean_in_the_shape_that_ase_has():
    members = [cliffordstf.build("default/small", elements=ELEMENTS, seed=seed, channels=8) for seed in range(2)]
    atoms = molecule("H2O")
    calculator = Calculator(members, dtype="float32")
    with pytest.raises(ConfigError, match=r"seen no atoms yet; call get_hessian\(atoms\)"):
        calculator.get_hessian()
    found = calculator.get_hessian(atoms)
    assert found.shape == (9, 9)
    expected = np.mean([member.hessian(atoms) for member in members], axis=0).reshape(9, 9)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert np.abs(expected - members[0].hessian(atoms).reshape(9, 9)).max() > 1e-2
    calculator.get_forces(atoms)
    np.testing.assert_array_equal(calculator.get_hessian(), found)


def test_the_example_is_right():
    assert doctest.testmod(ase_module).failed == 0
    assert doctest.testmod(ase_module).attempted > 3


def test_a_single_atom_and_a_molecule_without_cell(potential):
    atom = Atoms("O", calculator=Calculator(potential))
    assert np.array_equal(atom.get_forces(), np.zeros((1, 3)))
    with pytest.raises(PropertyNotImplementedError, match="no three-dimensional cell"):
        atom.get_stress()
    assert np.isfinite(atom.get_potential_energy())


def test_errors_say_what_is_wrong(potential, tmp_path):
    calculator = Calculator(potential)
    with pytest.raises(UnknownElementError, match=r"H3N holds N, which"):
        calculator.get_potential_energy(molecule("NH3"))
    broken = molecule("H2O")
    broken.positions[1, 2] = np.nan
    with pytest.raises(StructureError, match=r"not a finite number \(atom 1, H"):
        calculator.get_potential_energy(broken)
    with pytest.raises(StructureError, match="on the same spot"):
        calculator.get_potential_energy(Atoms("H2", positions=[[0, 0, 0], [0, 0, 1e-5]]))
    assert np.isfinite(calculator.get_potential_energy(molecule("H2O")))
    with pytest.raises(ConfigError, match="dtype='float16'"):
        Calculator(potential, dtype="float16")
    with pytest.raises(ConfigError, match="empty list"):
        Calculator([])
    with pytest.raises(ConfigError, match="device 'quantum'"):
        Calculator(potential, device="quantum")
    with pytest.raises(ModelFileError, match="neither a model file, the folder of a run nor a shipped model"):
        Calculator(str(tmp_path / "nothing.safetensors"))


def test_damaged_weights_do_not_pass_as_results(potential):
    calculator = Calculator(potential)
    next(calculator.potentials[0].model.parameters()).fill_(torch.nan)
    with pytest.raises(StructureError, match="not finite numbers"):
        calculator.get_potential_energy(molecule("H2O"))


def test_memory_stays_flat(potential):
    atoms = molecule("H2O")
    atoms.calc = Calculator(potential, skin=0.1)
    generator = np.random.default_rng(0)
    kept = []

    def walk(steps: int, keep: bool = False) -> int:
        for _ in range(steps):
            atoms.positions += generator.normal(scale=0.01, size=(3, 3))
            atoms.get_forces()
            if keep:
                kept.append(atoms.calc.results)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        sizes = [walk(100), walk(200), walk(200, keep=True)]
    finally:
        tracemalloc.stop()
    growth, growth_when_results_are_kept = np.diff(sizes)
    assert atoms.calc.neighbours.builds > 20
    assert growth < 40_000
    assert growth_when_results_are_kept > 80_000


def test_steps_of_dynamics_keep_the_edges_of_the_runtime(potential, monkeypatch):
    atoms = molecule("CH3CH2OH")
    atoms.calc = Calculator(potential)
    set_edges, seen = NativeWorkspace.set_edges, []

    def listen(self, *arguments):
        before = self._edges
        set_edges(self, *arguments)
        seen.append(self._edges is before)

    monkeypatch.setattr(NativeWorkspace, "set_edges", listen)
    for seed in range(3):
        atoms.rattle(1e-4, seed=seed)
        forces = atoms.get_forces()
    assert seen == [False, True, True]
    np.testing.assert_allclose(forces, atoms.calc.potentials[0].predict(atoms).forces.numpy(), atol=1e-12)


def test_a_move_is_followed_as_anything_else_is(potential):
    """Only what the energy depends on counts as a change, to the last bit."""
    atoms = molecule("CH3CH2OH")
    atoms.calc = Calculator(potential)
    first = atoms.get_forces()
    atoms.set_tags([1] * len(atoms))
    assert atoms.calc.check_state(atoms) == []
    atoms.positions[0, 0] += 1e-13
    assert atoms.calc.check_state(atoms) == ["positions"]
    atoms.get_forces()
    assert (atoms.calc.atoms.positions == atoms.positions).all()
    atoms.positions[0, 0] -= 1e-13
    np.testing.assert_allclose(atoms.get_forces(), first, atol=1e-12)
    atoms.numbers[-1] = 8
    assert atoms.calc.check_state(atoms) == ["numbers"]
    changed = atoms.get_forces()
    np.testing.assert_allclose(changed, atoms.calc.potentials[0].predict(atoms).forces.numpy(), atol=1e-12)
    atoms.positions[1] = np.nan
    with pytest.raises(StructureError, match="not a finite number"):
        atoms.get_forces()
    del atoms[-1]
    atoms.positions[1] = [5.0, 0.0, 0.0]
    assert len(atoms.get_forces()) == 8
