"""Properties of a crystal: lattice constants, equation of state, elastic tensor, phonons."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.phonons import phonons
from cliffordstf.simulate.properties.bands import PhononBands, phonon_bands, supercell_of_width
from cliffordstf.simulate.properties.elastic import Moduli, elastic_tensor, moduli
from cliffordstf.simulate.properties.equation_of_state import EquationOfState, equation_of_state
from cliffordstf.simulate.properties.symmetry import SpaceGroup, hold_symmetry, space_group
from cliffordstf.simulate.relax import RelaxResult, RelaxSettings, relax
from cliffordstf.simulate.stress import density

SUPERCELL_WIDTH = 10.0
"""Å, least width of the supercell of phonons unless repeats are given."""

Progress = Callable[[str, int, int], None]
"""Called with what is being computed, how many parts of it are done, and how many there are."""


@dataclass(frozen=True)
class PropertySettings:
    """What is computed and how.

    Attributes:
        fmax: eV/Å, of every relaxation; with the cell also eV per atom.
        steps: Most steps of each relaxation.
        symprec: Å, how far atoms may be from symmetric positions at the start.
        strain: Largest element of the strains of the elastic tensor.
        span: Largest relative change of the volume of the equation of state.
        points: Number of volumes.
        supercell: Repeats for phonons; by default as many as make it 10 Å wide.
        displacement: Å, of phonons.
        elastic, phonons: Whether these are computed.
    """

    fmax: float = 1e-4
    steps: int = 1000
    symprec: float = 0.01
    strain: float = 0.005
    span: float = 0.06
    points: int = 7
    supercell: tuple[int, int, int] | None = None
    displacement: float = 0.01
    elastic: bool = True
    phonons: bool = True


@dataclass(frozen=True)
class CrystalProperties:
    """Properties of a relaxed crystal.

    Attributes:
        formula: Of the given cell.
        energy_ev_atom: eV per atom, at the minimum.
        volume_a3_atom: Å³ per atom.
        density_g_cm3: Mass per volume.
        space_group: With the lattice constants of the conventional cell.
        equation_of_state: Of the given cell.
        elastic_gpa: Elastic tensor, Voigt order, (6, 6), in the Cartesian axes of the structure; None if left out.
        moduli: Of that tensor.
        phonons: None if left out.
    """

    formula: str
    energy_ev_atom: float
    volume_a3_atom: float
    density_g_cm3: float
    space_group: SpaceGroup
    equation_of_state: EquationOfState
    elastic_gpa: FloatArray | None
    moduli: Moduli | None
    phonons: PhononBands | None


def crystal_properties(
    atoms: Atoms,
    calculator: AseCalculator,
    settings: PropertySettings | None = None,
    progress: Progress | None = None,
) -> CrystalProperties:
    """Relax a crystal in place, cell included and space group kept, and compute its properties.

    Args:
        atoms: Periodic in three directions, without constraints.
        calculator: Any ASE calculator with stress.
        settings: What is computed and how.
        progress: Called as the work proceeds.

    Raises:
        ConfigError: The structure is not a crystal, has constraints, or an optional package is missing.
        SimulationError: A relaxation does not converge, or the energy has no minimum.
    """
    settings = settings or PropertySettings()
    _check(atoms)
    show = progress or (lambda *_: None)
    hold_symmetry(atoms, settings.symprec)
    result = _relax(atoms, calculator, settings, show)
    if not result.converged:
        raise SimulationError(
            f"{atoms.get_chemical_formula()} is not relaxed after {settings.steps} steps: forces are "
            f"{result.max_force:.2g} eV/Å and the limit is {settings.fmax:g}; allow more steps or a larger force."
        )
    limits = {"fmax": settings.fmax, "steps": settings.steps}
    curve = equation_of_state(
        atoms,
        calculator,
        settings.span,
        settings.points,
        **limits,  # type: ignore[arg-type]
        on_volume=lambda done: show("equation of state", done, settings.points),
    )
    atoms.set_constraint()  # strains and displacements break the symmetry
    tensor, bands = None, None
    if settings.elastic:
        tensor = elastic_tensor(
            atoms,
            calculator,
            settings.strain,
            **limits,  # type: ignore[arg-type]
            on_strain=lambda done: show("elastic tensor", done, 12),
        )
    if settings.phonons:
        show("phonons", 0, 1)
        repeats = settings.supercell or supercell_of_width(atoms.cell.array, SUPERCELL_WIDTH)
        bands = phonon_bands(phonons(atoms, calculator, repeats, settings.displacement, symprec=1e-4), repeats)
    return CrystalProperties(
        formula=atoms.get_chemical_formula(),
        energy_ev_atom=result.energy / len(atoms),
        volume_a3_atom=atoms.get_volume() / len(atoms),
        density_g_cm3=density(atoms),
        space_group=space_group(atoms, settings.symprec),
        equation_of_state=curve,
        elastic_gpa=tensor,
        moduli=None if tensor is None else moduli(tensor),
        phonons=bands,
    )


def _relax(atoms: Atoms, calculator: AseCalculator, settings: PropertySettings, show: Progress) -> RelaxResult:
    wanted = RelaxSettings(fmax=settings.fmax, steps=settings.steps, cell=True)
    with warnings.catch_warnings():
        # ASE warns of steps above 0.15 and raises above 0.25; those of the optimizers end at 0.22.
        warnings.filterwarnings("ignore", message="FixSymmetry adjust_cell may be ill behaved")
        return relax(atoms, calculator, wanted, lambda step, _: show("relaxation", step, settings.steps))


def _check(atoms: Atoms) -> None:
    name, directions = atoms.get_chemical_formula(), int(np.sum(atoms.pbc))
    if directions < 3:
        kind = ("molecule", "chain", "slab")[directions]
        raise ConfigError(
            f"{name} is a {kind}, periodic in {directions} of three directions, so it has no elastic tensor, equation "
            "of state or phonons of a crystal; give a crystal or a molecule, or use 'cliffordstf relax'."
        )
    if atoms.constraints:
        raise ConfigError(
            f"{name} has the constraint {type(atoms.constraints[0]).__name__}; properties are those of a crystal that "
            "is free to relax, so remove it."
        )
