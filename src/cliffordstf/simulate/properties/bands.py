"""Band structure and density of states of phonons, with imaginary modes named by their q point."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import units
from ase.cell import Cell

from cliffordstf.data.structure import FloatArray

if TYPE_CHECKING:
    from phonopy import Phonopy

IMAGINARY = -0.05
"""THz, below which a mode is called imaginary; rounding and residual forces leave less around Γ."""

ROOM_TEMPERATURE = 298.15
"""K."""


@dataclass(frozen=True)
class ImaginaryMode:
    """A mode along which the energy falls.

    Attributes:
        point: Name of the q point, or its coordinates if it has none.
        q: Coordinates in reciprocal lattice vectors of the primitive cell.
        frequency_thz: Negative, as imaginary frequencies are given.
    """

    point: str
    q: tuple[float, float, float]
    frequency_thz: float


@dataclass(frozen=True)
class PhononBands:
    """Phonons of a crystal along its standard path and over its Brillouin zone.

    Attributes:
        supercell: Repeats of the given cell.
        q: Path in reciprocal lattice vectors of the primitive cell, (points, 3).
        distance: Along the path; equal for two points where the path is broken, (points,).
        frequencies_thz: (points, bands), ascending; an imaginary frequency is given as a negative number.
        ticks, labels: Distances and names of special points.
        dos_frequencies_thz, dos: Density of states, states per THz and primitive cell.
        imaginary: Modes below `IMAGINARY`, the lowest first: those of special points and the lowest of all.
        zero_point_energy_ev: Per primitive cell; None if there are imaginary modes.
        heat_capacity_j_k_mol: At 298.15 K, per mole of primitive cells; likewise.
        atoms: In the primitive cell.
    """

    supercell: tuple[int, int, int]
    q: FloatArray
    distance: FloatArray
    frequencies_thz: FloatArray
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    dos_frequencies_thz: FloatArray
    dos: FloatArray
    imaginary: tuple[ImaginaryMode, ...]
    zero_point_energy_ev: float | None
    heat_capacity_j_k_mol: float | None
    atoms: int


def phonon_bands(phonon: "Phonopy", supercell: Sequence[int], points: int = 200, mesh: float = 50.0) -> PhononBands:
    """Bands along ASE's standard path, density of states and imaginary modes.

    Args:
        phonon: With force constants, of `cliffordstf.simulate.phonons.phonons`.
        supercell: That it was made with.
        points: About how many along the path.
        mesh: Å, length that chooses the mesh of q points of the density of states.
    """
    path = Cell(phonon.primitive.cell).bandpath(npoints=points)
    distance, ticks, labels = path.get_linear_kpoint_axis()
    frequencies = frequencies_at(phonon, path.kpts)
    phonon.run_mesh(mesh, is_gamma_center=True)
    phonon.run_total_dos()
    zone: Any = phonon.mesh
    density: Any = phonon.total_dos
    special = {label: np.asarray(path.special_points[label]) for label in dict.fromkeys(labels)}
    points_of_special = frequencies_at(phonon, np.array(list(special.values())))
    modes = [
        ImaginaryMode(_shown(label), _triple(special[label]), float(frequency))
        for label, row in zip(special, points_of_special, strict=True)
        for frequency in row
        if frequency < IMAGINARY
    ]
    every = np.concatenate([path.kpts, zone.qpoints])
    lowest = np.concatenate([frequencies, zone.frequencies]).min(axis=1)
    place = int(lowest.argmin())
    if lowest[place] < min([IMAGINARY, *(mode.frequency_thz - 1e-3 for mode in modes)]):
        q = _triple(every[place])
        modes.append(ImaginaryMode(f"({q[0]:.3g}, {q[1]:.3g}, {q[2]:.3g})", q, float(lowest[place])))
    zero_point, heat_capacity = (None, None) if modes else _thermal(zone.frequencies, zone.weights)
    a, b, c = (int(number) for number in supercell)
    return PhononBands(
        supercell=(a, b, c),
        q=np.asarray(path.kpts),
        distance=np.asarray(distance),
        frequencies_thz=frequencies,
        ticks=tuple(float(tick) for tick in ticks),
        labels=tuple(_shown(label) for label in labels),
        dos_frequencies_thz=np.asarray(density.frequency_points),
        dos=np.asarray(density.dos),
        imaginary=tuple(sorted(modes, key=lambda mode: mode.frequency_thz)),
        zero_point_energy_ev=zero_point,
        heat_capacity_j_k_mol=heat_capacity,
        atoms=len(phonon.primitive),
    )


def frequencies_at(phonon: "Phonopy", q: FloatArray) -> FloatArray:
    """Frequencies, THz, (points, bands), at q points (points, 3)."""
    phonon.run_qpoints(q)
    found: Any = phonon.qpoints
    return np.asarray(found.frequencies)


def supercell_of_width(cell: FloatArray, width: float) -> tuple[int, int, int]:
    """Fewest repeats that make a cell at least `width` Å wide between opposite faces.

    Example:
        >>> supercell_of_width(np.diag([3.0, 4.0, 12.0]), 10.0)
        (4, 3, 1)
    """
    heights = 1 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    a, b, c = (max(1, int(np.ceil(width / height - 1e-9))) for height in heights)
    return a, b, c


def _thermal(frequencies: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Zero-point energy, eV, and heat capacity, J/K/mol, of a primitive cell, from the frequencies of a mesh in THz."""
    quanta = np.maximum(frequencies, 0.0) * units._hplanck * 1e12 / units._e
    ratios = quanta / (units.kB * ROOM_TEMPERATURE)
    shares = np.where(ratios < 1e-4, 1.0, (np.maximum(ratios, 1e-4) / (2 * np.sinh(np.maximum(ratios, 1e-4) / 2))) ** 2)
    per_cell = weights / weights.sum()
    return float(per_cell @ (quanta / 2).sum(axis=1)), float(per_cell @ shares.sum(axis=1) * units._k * units._Nav)


def _triple(q: FloatArray) -> tuple[float, float, float]:
    a, b, c = (round(float(value), 6) for value in q)
    return a, b, c


def _shown(label: str) -> str:
    return {"G": "Γ"}.get(label, label)
