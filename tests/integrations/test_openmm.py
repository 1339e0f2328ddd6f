import doctest
import importlib
import sys

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, molecule

import cliffordstf
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.integrations.ase import Calculator

openmm = pytest.importorskip("openmm", reason="needs pip install 'cliffordstf[openmm]'")
app = pytest.importorskip("openmm.app")
module = pytest.importorskip("cliffordstf.integrations.openmm")

EV = 96.48533212331  # kJ/mol, CODATA 2018; that of ASE differs by 1e-8


@pytest.fixture(scope="module")
def calculator() -> Calculator:
    return Calculator("ethanol-gfn2")


def topology_of(atoms: Atoms) -> "app.Topology":
    topology = app.Topology()
    residue = topology.addResidue("MOL", topology.addChain())
    for number, atomic_number in enumerate(atoms.numbers):
        topology.addAtom(str(number), app.Element.getByAtomicNumber(int(atomic_number)), residue)
    if atoms.pbc.all():
        topology.setPeriodicBoxVectors(atoms.cell.array / 10 * openmm.unit.nanometer)
    return topology


def evaluate(system, positions, platform="Reference"):
    """Energy in eV and forces in eV/Å at positions in Å."""
    integrator = openmm.VerletIntegrator(0.0005)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform))
    context.setPositions(positions / 10)
    state = context.getState(getEnergy=True, getForces=True)
    forces = state.getForces(asNumpy=True).value_in_unit(openmm.unit.kilojoule_per_mole / openmm.unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(openmm.unit.kilojoule_per_mole) / EV, forces / EV / 10


@pytest.mark.parametrize(("platform", "tolerance"), [("Reference", 1e-5), ("CPU", 1e-4)])
def test_a_molecule_has_the_energy_and_forces_of_the_calculator(calculator, platform, tolerance):
    assert pytest.approx(EV, rel=1e-6) == module.KJ_PER_MOL
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.05, seed=0)
    energy, forces = evaluate(module.model_system(topology_of(atoms), calculator), atoms.positions, platform)
    assert energy == pytest.approx(calculator.get_potential_energy(atoms), abs=tolerance)
    np.testing.assert_allclose(forces, calculator.get_forces(atoms), atol=tolerance)
    assert np.abs(forces).max() > 0.5


def test_a_crystal_in_a_skewed_box():
    potential = cliffordstf.build("default/small", elements=["Si"], seed=1, channels=8, energy_scale=20.0)
    atoms = bulk("Si", cubic=True, a=5.3)
    atoms.set_cell([[5.3, 0, 0], [0.4, 5.2, 0], [-0.3, 0.2, 5.4]], scale_atoms=True)
    atoms.rattle(0.1, seed=0)
    energy, forces = evaluate(module.model_system(topology_of(atoms), Calculator(potential)), atoms.positions)
    assert energy == pytest.approx(Calculator(potential).get_potential_energy(atoms), abs=1e-6)
    np.testing.assert_allclose(forces, Calculator(potential).get_forces(atoms), atol=1e-6)


def waters(count: int, box: float | None = None) -> tuple["app.Topology", np.ndarray]:
    topology, positions = app.Topology(), []
    chain = topology.addChain()
    random = np.random.default_rng(0)
    for number in range(count):
        residue = topology.addResidue("HOH", chain)
        oxygen = topology.addAtom("O", app.element.oxygen, residue)
        for name in ("H1", "H2"):
            topology.addBond(oxygen, topology.addAtom(name, app.element.hydrogen, residue))
        atoms = molecule("H2O")
        atoms.rotate(90 * number, (1, 2, 3), center="COM")
        positions.append(atoms.positions + [3.0 * number, 0.3 * number, 0] + 0.05 * random.normal(size=(3, 3)))
    if box is not None:
        topology.setPeriodicBoxVectors(np.eye(3) * box / 10 * openmm.unit.nanometer)
    return topology, np.concatenate(positions)


def of_force_field(topology, rigid=False):
    method = app.NoCutoff if topology.getPeriodicBoxVectors() is None else app.CutoffPeriodic
    system = app.ForceField("tip3p.xml").createSystem(
        topology, nonbondedMethod=method, nonbondedCutoff=0.6, constraints=None, rigidWater=rigid
    )
    next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce)).setUseDispersionCorrection(False)
    return system


@pytest.mark.parametrize("box", [None, 13.0])
def test_a_mixed_system_exchanges_what_is_inside_a_molecule(calculator, box):
    topology, positions = waters(3, box)
    if box is not None:
        positions += [11.5, 0, 0]  # some are beyond the edge of the box
    chosen = [3, 4, 5]
    mixed = module.mixed_system(of_force_field(topology), topology, chosen, calculator)
    energy, forces = evaluate(mixed, positions)
    whole, forces_of_whole = evaluate(of_force_field(topology), positions)
    inside, forces_inside = evaluate(of_force_field(waters(1, box)[0]), positions[chosen])
    atoms = Atoms("OH2", positions=positions[chosen])
    assert energy == pytest.approx(whole - inside + calculator.get_potential_energy(atoms), abs=1e-5)
    expected = forces_of_whole.copy()
    expected[chosen] += calculator.get_forces(atoms) - forces_inside
    np.testing.assert_allclose(forces, expected, atol=1e-5)
    assert abs(inside) > 0.01


def test_constraints_stay_outside_and_go_inside(calculator):
    topology, _ = waters(3)
    rigid = of_force_field(topology, rigid=True)
    mixed = module.mixed_system(rigid, topology, [0, 1, 2], calculator)
    assert (rigid.getNumConstraints(), mixed.getNumConstraints()) == (9, 6)
    assert {mixed.getConstraintParameters(i)[0] for i in range(6)} >= {3, 6}


def test_dynamics_conserve_the_energy(calculator):
    atoms = molecule("CH3CH2OH")
    integrator = openmm.VerletIntegrator(0.0005 * openmm.unit.picosecond)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(module.model_system(topology_of(atoms), calculator), integrator, platform)
    context.setPositions(atoms.positions / 10)
    context.setVelocitiesToTemperature(300, 1)
    totals = []
    for _ in range(20):
        integrator.step(5)
        state = context.getState(getEnergy=True)
        total = state.getPotentialEnergy() + state.getKineticEnergy()
        totals.append(total.value_in_unit(openmm.unit.kilojoule_per_mole) / EV)
    assert np.ptp(totals) < 0.01
    temperature = 2 * state.getKineticEnergy().value_in_unit(openmm.unit.kilojoule_per_mole) / EV / units.kB / 21
    assert 50 < temperature < 600


def test_mistakes_are_explained(calculator, monkeypatch):
    topology, _ = waters(2)
    system = of_force_field(topology)
    with pytest.raises(ConfigError, match="bond between atoms 0 and 2 leads out of"):
        module.mixed_system(system, topology, [0, 1], calculator)
    with pytest.raises(ConfigError, match=r"particles=\[6\] must be indices"):
        module.mixed_system(system, topology, [0, 6], calculator)
    with pytest.raises(ConfigError, match=r"particles=\[\] must be indices"):
        module.mixed_system(system, topology, [], calculator)
    maps = openmm.CMAPTorsionForce()
    maps.addMap(2, [0.0] * 4)
    maps.addTorsion(0, 3, 4, 5, 3, 4, 5, 3, 4)
    system.addForce(maps)
    assert module.mixed_system(system, topology, [0, 1, 2], calculator).getNumForces() == system.getNumForces() + 1
    with pytest.raises(ConfigError, match="has a CMAPTorsionForce, which cannot be taken out"):
        module.mixed_system(system, topology, [3, 4, 5], calculator)
    system.addForce(openmm.GBSAOBCForce())
    with pytest.raises(ConfigError, match="has a GBSAOBCForce, which cannot be taken out"):
        module.mixed_system(system, topology, [0, 1, 2], calculator)
    site = app.Topology()
    site.addAtom("M", None, site.addResidue("HOH", site.addChain()))
    for refused in (
        lambda: module.model_system(site, calculator),
        lambda: module.mixed_system(system, site, [0], calculator),
    ):
        with pytest.raises(ConfigError, match="virtual site"):
            refused()
    monkeypatch.delitem(sys.modules, "cliffordstf.integrations.openmm")
    monkeypatch.setitem(sys.modules, "openmm", None)
    with pytest.raises(ConfigError, match=r"pip install 'cliffordstf\[openmm\]'\.$"):
        importlib.import_module("cliffordstf.integrations.openmm")


def test_errors_of_the_model_reach_the_user(calculator):
    atoms = Atoms("SiH", positions=[[0, 0, 0], [0, 0, 1.5]])
    with pytest.raises((UnknownElementError, openmm.OpenMMException), match="holds Si"):
        evaluate(module.model_system(topology_of(atoms), calculator), atoms.positions)


def test_the_example_is_right():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 4
