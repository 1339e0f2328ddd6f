"""Sample structures around a start, label them, keep those that are new."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from ase import Atoms
from ase.data import chemical_symbols

import cliffordstf
from cliffordstf.errors import DataError
from cliffordstf.generate.settings import GenerateSettings
from cliffordstf.generate.unique import SeenFrames
from cliffordstf.generate.xtb import METHOD, label, make_xtb, one_thread, tblite_version
from cliffordstf.simulate.guards import BROKEN, Guards, SimulationError
from cliffordstf.simulate.integrators import draw_velocities, make_integrator
from cliffordstf.simulate.settings import MDSettings

MOST_TRIES = 20
"""Tries per frame before the sampling gives up because everything it finds is a duplicate."""

ONE_THREAD_UP_TO = 60
"""Atoms; tblite's threads pay for larger structures only."""


def generate_frames(
    starts: list[Atoms],
    settings: GenerateSettings,
    on_frame: Callable[[int], None] | None = None,
) -> list[Atoms]:
    """Labelled frames, with their provenance in `info`.

    Args:
        starts: Structures to start from; the frames are shared out evenly between them and the temperatures.
        settings: What to sample.
        on_frame: Called with the number of frames made so far.

    Raises:
        SimulationError: The dynamics broke down.
        DataError: Nothing but duplicates is found.
    """
    make_xtb()  # A missing tblite is found before anything else is done.
    with one_thread(max(len(atoms) for atoms in starts) <= ONE_THREAD_UP_TO):
        return _generate(starts, settings, on_frame)


def _generate(starts: list[Atoms], settings: GenerateSettings, on_frame: Callable[[int], None] | None) -> list[Atoms]:
    frames = _isolated_atoms(starts, settings) if settings.isolated_atoms else []
    extra = len(frames)
    seen = SeenFrames(settings.tolerance)
    branches = _branches(starts, settings)
    for number, (start, temperature) in enumerate(branches):
        wanted = settings.frames // len(branches) + (number < settings.frames % len(branches))
        random = np.random.default_rng([settings.seed, number])
        samples = _samples(start, temperature, settings, random)
        info = _provenance(settings, temperature)
        for atoms in _new_ones(wanted, samples, seen):
            frames.append(label(atoms, info))
            if on_frame is not None:
                on_frame(len(frames) - extra)
    return frames


def _branches(starts: list[Atoms], settings: GenerateSettings) -> list[tuple[Atoms, float]]:
    temperatures = settings.temperatures if settings.rattle is None else (0.0,)
    return list(product(starts, temperatures))


def _new_ones(wanted: int, samples: Iterator[Atoms], seen: SeenFrames) -> Iterator[Atoms]:
    found = tries = 0
    while found < wanted:
        tries += 1
        if tries > MOST_TRIES * wanted:
            raise DataError(
                f"only {found} of {wanted} frames differ by more than the tolerance after {tries - 1} tries; sample a "
                "higher temperature, a longer interval or a smaller tolerance."
            )
        atoms = next(samples)
        if seen.add_if_new(atoms):
            found += 1
            yield atoms


def _samples(
    start: Atoms, temperature: float, settings: GenerateSettings, random: np.random.Generator
) -> Iterator[Atoms]:
    if settings.rattle is not None:
        return _rattled(start, settings.rattle, random)
    return _dynamics(start, temperature, settings, random)


def _rattled(start: Atoms, sigma: float, random: np.random.Generator) -> Iterator[Atoms]:
    while True:
        atoms = start.copy()
        atoms.positions += random.normal(scale=sigma, size=atoms.positions.shape)
        yield atoms


def _dynamics(
    start: Atoms, temperature: float, settings: GenerateSettings, random: np.random.Generator
) -> Iterator[Atoms]:
    """Frames of Langevin dynamics, one every `interval` after the equilibration."""
    atoms = start.copy()
    atoms.calc = make_xtb()
    draw_velocities(atoms, temperature, random)
    thermostat = MDSettings(
        "nvt", temperature=temperature, timestep=settings.timestep, friction=settings.friction, seed=settings.seed
    )
    integrator = make_integrator(atoms, thermostat, random)
    guards = Guards()
    wait, between = (round(span / settings.timestep) for span in (settings.equilibration, settings.interval))
    step = 0
    while True:
        try:
            for _ in range(between if step else wait):
                integrator.step()  # type: ignore[attr-defined]
                step += 1
            guards.check(atoms, temperature)
        except BROKEN as error:
            raise SimulationError(
                f"sampling {start.get_chemical_formula()} at {temperature:g} K broke down at step {step}: {error}"
            ) from error
        yield _centred(atoms)


def _centred(atoms: Atoms) -> Atoms:
    """A copy; a molecule's centre of mass, which diffuses, is moved to the origin."""
    frame = atoms.copy()
    if not frame.pbc.any():
        frame.positions -= frame.get_center_of_mass()
    return frame


def _provenance(settings: GenerateSettings, temperature: float) -> dict[str, Any]:
    how = {"temperature_K": temperature} if settings.rattle is None else {"rattle_A": settings.rattle}
    return {
        "method": METHOD,
        **how,
        "seed": settings.seed,
        "tblite": tblite_version(),
        "cliffordstf": cliffordstf.__version__,
    }


def _isolated_atoms(starts: list[Atoms], settings: GenerateSettings) -> list[Atoms]:
    """One frame per element with the energy that tblite gives to its free atom."""
    numbers = sorted({int(number) for atoms in starts for number in atoms.numbers})
    info = {"method": METHOD, "config_type": "IsolatedAtom", "seed": settings.seed, "tblite": tblite_version()}
    info["cliffordstf"] = cliffordstf.__version__
    return [label(Atoms(chemical_symbols[number], positions=[[0, 0, 0]]), info) for number in numbers]
