"""Forces for OpenMM: whole systems, or molecules in a force field; `pip install 'cliffordstf[openmm]'`."""

import copy
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError

try:
    import openmm
except ImportError:
    raise ConfigError(
        "this needs the package openmm, which is not installed: pip install 'cliffordstf[openmm]'."
    ) from None

KJ_PER_MOL = units.mol / units.kJ
"""kJ/mol of one eV."""

BONDED: dict[str, tuple[str, int, slice]] = {
    "HarmonicBondForce": ("Bond", 2, slice(-1, None)),
    "HarmonicAngleForce": ("Angle", 3, slice(-1, None)),
    "PeriodicTorsionForce": ("Torsion", 4, slice(-1, None)),
    "RBTorsionForce": ("Torsion", 4, slice(4, None)),
}
"""Force -> name of its terms, atoms of a term, and which parameters are its stiffness."""

HARMLESS = (
    "CMMotionRemover",
    "MonteCarloBarostat",
    "MonteCarloAnisotropicBarostat",
    "MonteCarloMembraneBarostat",
    "AndersenThermostat",
    "CustomExternalForce",
    "PythonForce",
)
"""Forces without interactions between the atoms of a molecule."""


def atomic_numbers(topology: Any, particles: Sequence[int] | None = None) -> list[int]:
    """Atomic numbers of an `openmm.app.Topology`, or of some of its atoms.

    Raises:
        ConfigError: There is no such atom, or it is a virtual site without an element.
    """
    atoms = list(topology.atoms())
    chosen = list(range(len(atoms))) if particles is None else list(particles)
    wrong = [particle for particle in chosen if not 0 <= particle < len(atoms)]
    if wrong or not chosen:
        raise ConfigError(
            f"particles={wrong or chosen} must be indices of atoms of the topology, which has {len(atoms)}."
        )
    for atom in (atoms[particle] for particle in chosen):
        if atom.element is None:
            raise ConfigError(
                f"atom {atom.index} ({atom.name}) is a virtual site without an element, which a model cannot act on; "
                "choose molecules without such sites."
            )
    return [int(atoms[particle].element.atomic_number) for particle in chosen]


def model_force(
    calculator: AseCalculator, numbers: Sequence[int], particles: Sequence[int] | None = None, periodic: bool = False
) -> Any:
    """An `openmm.PythonForce` with the energy of a calculator.

    Args:
        calculator: For example `cliffordstf.Calculator`.
        numbers: Atomic numbers of the particles that it acts on.
        particles: Their indices in the system; all by default.
        periodic: Whether they are in the periodic box of the system.

    Returns:
        A force to be added to a system; energies in kJ/mol and forces in kJ/mol/nm, converted here.
    """
    force = openmm.PythonForce(_computation(calculator, Atoms(numbers, pbc=periodic), periodic))
    force.setUsesPeriodicBoundaryConditions(periodic)
    if particles is not None:
        force.setParticles([int(particle) for particle in particles])
    return force


def model_system(topology: Any, calculator: AseCalculator) -> Any:
    """An `openmm.System` whose only force is a calculator's.

    Args:
        topology: An `openmm.app.Topology`; with box vectors it is periodic.
        calculator: For example `cliffordstf.Calculator`.

    Example:
        >>> from cliffordstf import Calculator
        >>> from openmm.app import Topology, element
        >>> topology = Topology()
        >>> residue = topology.addResidue("CO", topology.addChain())
        >>> _ = topology.addAtom("C", element.carbon, residue), topology.addAtom("O", element.oxygen, residue)
        >>> model_system(topology, Calculator("ethanol-gfn2")).getNumForces()
        1
    """
    numbers, vectors = atomic_numbers(topology), topology.getPeriodicBoxVectors()
    system = openmm.System()
    for atom in topology.atoms():
        system.addParticle(atom.element.mass)
    if vectors is not None:
        system.setDefaultPeriodicBoxVectors(*vectors)
    system.addForce(model_force(calculator, numbers, periodic=vectors is not None))
    return system


def mixed_system(system: Any, topology: Any, particles: Sequence[int], calculator: AseCalculator) -> Any:
    """A copy of a force field's system in which a calculator acts within some molecules.

    Interactions between these molecules and all others stay those of the force field (mechanical embedding). Within
    them its bonded terms, constraints and non-bonded interactions are taken out.

    Args:
        system: An `openmm.System` of a force field.
        topology: Its `openmm.app.Topology`.
        particles: Indices of the atoms of whole molecules.
        calculator: For example `cliffordstf.Calculator`.

    Raises:
        ConfigError: A bond leads out of the chosen atoms, or the system has a force that cannot be divided.
    """
    chosen = sorted({int(particle) for particle in particles})
    numbers = atomic_numbers(topology, chosen)
    inside = set(chosen)
    for bond in topology.bonds():
        _refuse_cut(bond[0].index, bond[1].index, inside)
    mixed = copy.deepcopy(system)
    for number in reversed(range(mixed.getNumConstraints())):
        first, second, _ = mixed.getConstraintParameters(number)
        _refuse_cut(first, second, inside)
        if first in inside:
            mixed.removeConstraint(number)
    for force in mixed.getForces():
        _take_out(force, inside)
    mixed.addForce(model_force(calculator, numbers, chosen, mixed.usesPeriodicBoundaryConditions()))
    return mixed


def _computation(calculator: AseCalculator, atoms: Atoms, periodic: bool) -> Callable[[Any], tuple[float, FloatArray]]:
    """Function of an OpenMM state: energy, kJ/mol, and forces, kJ/mol/nm, (particles, 3)."""

    def compute(state: Any) -> tuple[float, FloatArray]:
        angstrom = openmm.unit.angstrom
        atoms.set_positions(state.getPositions(asNumpy=True).value_in_unit(angstrom))
        if periodic:
            atoms.set_cell(state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(angstrom))
        forces = np.asarray(calculator.get_forces(atoms))
        return float(calculator.get_potential_energy(atoms)) * KJ_PER_MOL, forces * (10 * KJ_PER_MOL)

    return compute


def _take_out(force: Any, inside: set[int]) -> None:
    """Make a force vanish within the chosen atoms."""
    name = type(force).__name__
    if name in BONDED:
        kind, count, stiffness = BONDED[name]
        for number in range(getattr(force, f"getNum{kind}s")()):
            values = list(getattr(force, f"get{kind}Parameters")(number))
            if inside.issuperset(values[:count]):
                # Without stiffness rather than removed: the bonds still tell OpenMM which atoms are one molecule.
                values[stiffness] = [0.0 * value for value in values[stiffness]]
                getattr(force, f"set{kind}Parameters")(number, *values)
    elif name == "NonbondedForce":
        for first, second in combinations(sorted(inside), 2):
            force.addException(first, second, 0.0, 1.0, 0.0, True)
    elif name == "CustomNonbondedForce":
        known = {frozenset(force.getExclusionParticles(number)) for number in range(force.getNumExclusions())}
        for pair in combinations(sorted(inside), 2):
            if frozenset(pair) not in known:
                force.addExclusion(*pair)
    elif name == "CMAPTorsionForce" and not any(
        inside.intersection(force.getTorsionParameters(number)[1:]) for number in range(force.getNumTorsions())
    ):
        pass  # of a protein beside the chosen molecules
    elif name not in HARMLESS:
        raise ConfigError(
            f"the system has a {name}, which cannot be taken out of the atoms of the model; use a force field made of "
            f"{', '.join(BONDED)}, NonbondedForce and CustomNonbondedForce."
        )


def _refuse_cut(first: int, second: int, inside: set[int]) -> None:
    if (first in inside) != (second in inside):
        raise ConfigError(
            f"the bond between atoms {first} and {second} leads out of the atoms of the model; choose whole molecules."
        )
