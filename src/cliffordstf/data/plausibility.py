"""Numbers that look as if they were in other units, or had the other sign, than they were read in."""

from collections import defaultdict

import numpy as np
from ase.units import GPa

from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import FloatArray, IntArray
from cliffordstf.data.units import ENERGY_UNITS

LARGE_STRESS = 1.0
"""eV/Å³ (160 GPa): the largest component is hardly ever above this in half of the structures."""
LARGE_ENERGY = 5.0
"""eV per atom: stress times volume, which at a strain of a tenth is about 1.6 for diamond and less for all others;
structures made at random have up to 4 in the middle."""
UNITS_TO_RECOGNISE = ("kcal/mol", "kJ/mol", "Hartree")
SMALLEST_GROUP = 4
SMALLEST_SPREAD = 0.005


def implausible(frames: list[Frame]) -> list[str]:
    """One sentence for each suspicion."""
    return [*_energy_units(frames), *_stress_units(frames), *_stress_sign(frames)]


def _all_electron_energy(numbers: IntArray) -> float:
    """Rough total energy of free atoms with all their electrons, eV: within about 8 % from H to Xe."""
    return float(-0.5 * ENERGY_UNITS["Hartree"] * (numbers.astype(float) ** 2.4).sum())


def _energy_units(frames: list[Frame]) -> list[str]:
    """All-electron energies are known well enough to see that they are in another unit than eV."""
    ratios = [
        frame.energy / _all_electron_energy(frame.structure.numbers)
        for frame in frames
        if frame.energy is not None and frame.has_energy
    ]
    for unit in UNITS_TO_RECOGNISE if ratios else ():
        scaled = np.array(ratios) * ENERGY_UNITS[unit]
        if abs(np.median(scaled) - 1) < 0.12 and np.ptp(scaled) < 0.25:
            return [f"the energies look like {unit}, not eV: set the unit of energy to {unit} if they are."]
    return []


def _stress_units(frames: list[Frame]) -> list[str]:
    """Stress times volume per atom is an energy: a few tenths of an eV, and some eV at the highest pressures."""
    energies, largest = [], []
    for frame in frames:
        if frame.stress is not None and frame.has_stress and len(frame.structure) > 0:
            size = np.abs(frame.stress[np.isfinite(frame.stress)])
            largest.append(float(size.max()))
            energies.append(float(size.max()) * abs(float(np.linalg.det(frame.structure.cell))) / len(frame.structure))
    if not energies or (np.median(energies) <= LARGE_ENERGY and np.median(largest) <= LARGE_STRESS):
        return []
    middle = float(np.median(largest))
    return [
        f"the stress labels are as large as {middle:.2g} eV/Å³ ({middle / GPa:.0f} GPa) in half of the structures: if "
        "they are in GPa, kbar or bar, set the unit of stress (-kbar where they come from VASP)."
    ]


def _stress_sign(frames: list[Frame]) -> list[str]:
    """Stretched matter pulls: within a composition stress grows with volume, as bulk moduli are positive."""
    groups: dict[bytes, list[tuple[float, float]]] = defaultdict(list)
    for frame in frames:
        if frame.stress is not None and np.isfinite(np.trace(frame.stress)) and frame.structure.pbc.all():
            numbers, counts = np.unique(frame.structure.numbers, return_counts=True)
            reduced = np.concatenate([numbers, counts // np.gcd.reduce(counts)])
            volume = abs(float(np.linalg.det(frame.structure.cell))) / len(frame.structure)
            groups[reduced.tobytes()].append((volume, float(np.trace(frame.stress))))
    volumes: list[FloatArray] = []
    traces: list[FloatArray] = []
    for pairs in groups.values():
        volume, trace = np.array(pairs).T
        if len(pairs) >= SMALLEST_GROUP and volume.std() > SMALLEST_SPREAD * volume.mean():
            volumes.append((volume - volume.mean()) / volume.mean())
            traces.append(trace - trace.mean())
    if sum(map(len, volumes)) < 3 * SMALLEST_GROUP:
        return []
    x, y = _ranks(np.concatenate(volumes)), _ranks(np.concatenate(traces))
    if float(np.corrcoef(x, y)[0, 1]) > -0.5:
        return []
    return [
        "the stress falls as cells of the same composition grow, so its sign is probably that of VASP: mark the unit "
        "of stress with a minus (for example -kbar) if it is."
    ]


def _ranks(values: FloatArray) -> FloatArray:
    return np.argsort(np.argsort(values)).astype(np.float64)
