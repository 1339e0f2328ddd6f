"""ASE integrators for the three ensembles, and their state as plain numbers."""

import warnings
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.md.langevin import Langevin
from ase.md.md import MolecularDynamics
from ase.md.velocitydistribution import Stationary, ZeroRotation
from ase.md.verlet import VelocityVerlet

from cliffordstf.data.structure import FloatArray
from cliffordstf.errors import ConfigError
from cliffordstf.simulate.settings import MDSettings


def make_integrator(atoms: Atoms, settings: MDSettings, random: np.random.Generator) -> MolecularDynamics:
    """The integrator of an ensemble, in ASE's units.

    `npt` uses ASE's `LangevinBAOAB`. Of ASE's barostats it is the one that samples the isothermal-isobaric ensemble (a
    Berendsen barostat does not), stays ergodic for small and stiff systems because its noise reaches atoms and cell
    (deterministic Nosé-Hoover chains may not), and whose state is two numbers, so that a run can be resumed exactly.
    """
    timestep = settings.timestep * units.fs
    match settings.ensemble:
        case "nve":
            return VelocityVerlet(atoms, timestep)
        case "nvt":
            # fixcm=True would not sample the canonical ensemble; the centre of mass diffuses, as it should.
            friction = settings.friction / units.fs
            return Langevin(
                atoms, timestep, temperature_K=settings.temperature, friction=friction, fixcm=False, rng=random
            )
        case "npt":
            return _barostat(atoms, settings, random)


def _barostat(atoms: Atoms, settings: MDSettings, random: np.random.Generator) -> MolecularDynamics:
    try:
        from ase.md.langevinbaoab import LangevinBAOAB  # noqa: PLC0415 - ASE before 3.28 has no such module
    except ImportError:
        raise ConfigError("the npt ensemble needs ase 3.28 or newer: pip install -U ase.") from None
    if not atoms.pbc.all():
        raise ConfigError(
            f"{atoms.get_chemical_formula()} is not periodic in three directions, so it has no pressure; use nvt."
        )
    if atoms.constraints:
        raise ConfigError("the npt ensemble cannot hold atoms fixed; remove the constraints or use nvt.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using heuristic P_mass")
        return LangevinBAOAB(
            atoms,
            settings.timestep * units.fs,
            temperature_K=settings.temperature,
            externalstress=-settings.pressure * units.GPa,
            hydrostatic=settings.hydrostatic,
            T_tau=units.fs / settings.friction,
            P_tau=settings.barostat_time * units.fs,
            rng=random,
        )


def barostat_state(integrator: MolecularDynamics) -> dict[str, FloatArray]:
    """Momentum of the cell and the force on it; empty for the other ensembles."""
    names = ("p_eps", "force_eps")
    return {
        name: np.asarray(getattr(integrator, name), dtype=np.float64) for name in names if hasattr(integrator, name)
    }


def set_barostat_state(integrator: MolecularDynamics, state: dict[str, FloatArray]) -> None:
    """Put back what `barostat_state` returned."""
    for name, value in state.items():
        restored: Any = float(value) if value.ndim == 0 else value.copy()
        setattr(integrator, name, restored)


def draw_velocities(atoms: Atoms, temperature: float, random: np.random.Generator) -> None:
    """Maxwell-Boltzmann velocities at exactly `temperature` (K), without drift and, for molecules, without rotation."""
    masses = atoms.get_masses()[:, None]
    atoms.set_momenta(random.standard_normal((len(atoms), 3)) * np.sqrt(masses * units.kB * temperature))
    if temperature == 0:
        return
    # One atom has nothing but drift; fixed atoms hold the rest in place.
    if len(atoms) > 1 and not atoms.constraints:
        Stationary(atoms)
        if not atoms.pbc.any() and len(atoms) > 2:
            ZeroRotation(atoms)
    current = atoms.get_temperature()
    if current > 0:
        atoms.set_momenta(atoms.get_momenta() * np.sqrt(temperature / current))
