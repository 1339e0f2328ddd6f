import doctest
import importlib
import sys
import warnings

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.stress import voigt_6_to_full_3x3_stress

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.simulate.relax import RelaxSettings, relax

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages that torch-sim imports
    torch_sim = pytest.importorskip("torch_sim", reason="needs pip install 'cliffordstf[torch-sim]'")
    module = pytest.importorskip("cliffordstf.integrations.torch_sim")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch_sim", "ignore::UserWarning:torch_sim")

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def potential() -> cliffordstf.Potential:
    return cliffordstf.build("default/small", elements=["Si", "Fe"], seed=1, channels=8, energy_scale=20.0)


def crystals() -> list[Atoms]:
    skewed = bulk("Si", a=5.2)
    skewed.set_cell(skewed.cell.array + np.diag([0.1, 0.2], k=1), scale_atoms=True)
    found = [skewed, bulk("Si", cubic=True, a=5.3), bulk("Fe", a=2.9) * (2, 1, 1)]
    for seed, atoms in enumerate(found):
        atoms.rattle(0.1, seed=seed)
    return found


def state_of(systems: list[Atoms], dtype: torch.dtype = torch.float64):
    return torch_sim.io.atoms_to_state(systems, CPU, dtype)


def assert_as_calculator(found, systems, calculator, tolerance=1e-11):
    start = 0
    for number, atoms in enumerate(systems):
        assert float(found["energy"][number]) == pytest.approx(calculator.get_potential_energy(atoms), abs=tolerance)
        forces = found["forces"][start : start + len(atoms)]
        np.testing.assert_allclose(forces, calculator.get_forces(atoms), atol=tolerance)
        start += len(atoms)
        if atoms.pbc.all():
            stress = voigt_6_to_full_3x3_stress(calculator.get_stress(atoms))
            np.testing.assert_allclose(found["stress"][number], stress, atol=tolerance)
            assert np.abs(stress).max() > 1e-3


def test_results_are_those_of_the_calculator(potential):
    model = module.TorchSimModel(potential)
    assert_as_calculator(model(state_of(crystals())), crystals(), Calculator(potential))


def test_molecules_and_float32():
    systems = [molecule("CH3CH2OH"), molecule("CH3OH")]
    model = module.TorchSimModel("ethanol-gfn2", dtype=torch.float32)
    found = model(state_of(systems, torch.float32))
    assert found["energy"].dtype == found["forces"].dtype == torch.float32
    assert found["stress"].isnan().all()
    assert_as_calculator(found, systems, Calculator("ethanol-gfn2"), 2e-4)


def test_torch_sims_own_validation_passes(potential):
    torch_sim.models.interface.validate_model_outputs(module.TorchSimModel(potential), CPU, torch.float64)


def test_kept_neighbour_lists_follow_moves_cells_and_exchanged_systems(potential):
    model, calculator = module.TorchSimModel(potential), Calculator(potential)
    systems = crystals()
    model(state_of(systems))
    builds = [neighbours.builds for neighbours in model._neighbours]
    for atoms in systems:
        atoms.positions += 0.01
    systems[0].positions[0] += [0.05, 0, 0]
    assert_as_calculator(model(state_of(systems)), systems, calculator)
    assert [neighbours.builds for neighbours in model._neighbours] == builds
    systems[1].positions[0] += [0.6, 0, 0]
    systems[2].set_cell(systems[2].cell.array * 1.02, scale_atoms=True)
    assert_as_calculator(model(state_of(systems)), systems, calculator)
    systems = [systems[2], systems[0]]
    assert_as_calculator(model(state_of(systems)), systems, calculator)
    systems = systems + crystals()
    assert_as_calculator(model(state_of(systems)), systems, calculator)


def test_batched_relaxation_reaches_the_minima_of_single_ones(potential):
    systems = crystals()[:2]
    model = module.TorchSimModel(potential)
    state = torch_sim.optimize(
        systems,
        model,
        optimizer=torch_sim.frechet_cell_fire,
        convergence_fn=torch_sim.generate_force_convergence_fn(force_tol=1e-3, include_cell_forces=True),
        max_steps=1000,
        autobatcher=False,
    )
    for number, atoms in enumerate(systems):
        alone = relax(atoms, Calculator(potential), RelaxSettings(fmax=1e-3, cell=True))
        assert alone.converged
        assert float(state.energy[number]) == pytest.approx(alone.energy, abs=1e-3)


def test_dynamics_conserve_the_energy_of_every_system():
    systems = [molecule("CH3CH2OH"), molecule("CH3CH2OH")]
    systems[1].rattle(0.02, seed=0)
    model = module.TorchSimModel("ethanol-gfn2")
    energies = []

    def total(state):
        kinetic = torch_sim.quantities.calc_kinetic_energy(
            masses=state.masses, momenta=state.momenta, system_idx=state.system_idx
        )
        return state.energy + kinetic

    init, step = torch_sim.nve(model, dt=torch.tensor(0.00025), kT=torch.tensor(0.02))  # ps and eV
    state = init(state_of(systems), seed=0)
    for _ in range(100):
        state = step(state)
        energies.append(total(state).numpy())
    spread = np.ptp(np.array(energies), axis=0)
    assert energies[0].shape == (2,)
    assert (spread < 0.01).all()
    assert (np.abs(state.momenta.numpy()).max() > 0.1).all()


def test_mistakes_are_explained(potential, monkeypatch):
    with pytest.raises(ConfigError, match=r"choose torch\.float64 or torch\.float32"):
        module.TorchSimModel(potential, dtype=torch.float16)
    with pytest.raises(cliffordstf.UnknownElementError, match="holds C, which"):
        module.TorchSimModel(potential)(state_of([bulk("C"), bulk("Si")]))
    monkeypatch.delitem(sys.modules, "cliffordstf.integrations.torch_sim")
    monkeypatch.setitem(sys.modules, "torch_sim.models.interface", None)
    with pytest.raises(ConfigError, match=r"pip install 'cliffordstf\[torch-sim\]'\.$"):
        importlib.import_module("cliffordstf.integrations.torch_sim")


def test_the_example_is_right():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 4
