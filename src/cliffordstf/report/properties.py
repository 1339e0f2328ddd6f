"""Figures of the properties of a crystal or a molecule."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cliffordstf.host.files import write_atomically
from cliffordstf.report.style import ACCENT, INK, MUTED, SECOND, house_style
from cliffordstf.simulate.properties.bands import PhononBands
from cliffordstf.simulate.properties.crystal import CrystalProperties
from cliffordstf.simulate.properties.equation_of_state import EquationOfState
from cliffordstf.simulate.properties.molecule import MoleculeProperties

PEAK_WIDTH = 15.0
"""cm⁻¹, standard deviation of the Gaussians that normal modes are drawn with."""


def write_properties_png(found: CrystalProperties | MoleculeProperties, title: str, path: Path) -> None:
    """Write a figure: equation of state, bands and density of states of a crystal, or normal modes of a molecule."""
    with house_style():
        wide = isinstance(found, CrystalProperties) and found.phonons is not None
        figure = Figure(figsize=(11.0, 4.0) if wide else (5.2, 3.8), layout="constrained", facecolor="white")
        figure.suptitle(title, fontsize=11, fontweight="bold", parse_math=False)
        if isinstance(found, MoleculeProperties):
            draw_normal_modes(figure.add_subplot(), found)
        elif found.phonons is None:
            draw_equation_of_state(figure.add_subplot(), found.equation_of_state)
        else:
            grid = figure.add_gridspec(1, 3, width_ratios=(3.2, 5.0, 1.5))
            draw_equation_of_state(figure.add_subplot(grid[0]), found.equation_of_state)
            bands = figure.add_subplot(grid[1])
            draw_bands(bands, found.phonons)
            draw_density(figure.add_subplot(grid[2], sharey=bands), found.phonons)
        write_atomically(path, lambda place: figure.savefig(place, format="png", dpi=130))


def draw_equation_of_state(axes: Axes, curve: EquationOfState) -> None:
    """Computed energies above the minimum and the fit."""
    margin = 0.05 * np.ptp(curve.volumes_a3)
    volumes = np.linspace(curve.volumes_a3.min() - margin, curve.volumes_a3.max() + margin, 200)
    axes.plot(volumes, 1000 * (curve.energy(volumes) - curve.energy_ev), color=MUTED, label="Birch-Murnaghan")
    energies = 1000 * (curve.energies_ev - curve.energy_ev)
    axes.plot(curve.volumes_a3, energies, "o", color=ACCENT, markersize=5, label="computed")
    axes.axvline(curve.volume_a3, color=SECOND, linewidth=1.0, linestyle="--")
    axes.set(xlabel="volume of the cell (Å³)", ylabel="energy above the minimum (meV)")
    axes.set_title(f"bulk modulus {curve.bulk_modulus_gpa:.4g} GPa", fontsize=9)
    axes.legend(fontsize=8)


def draw_bands(axes: Axes, bands: PhononBands) -> None:
    """Frequencies along the path; imaginary ones, drawn below zero, in another colour."""
    breaks = np.flatnonzero(np.diff(bands.distance) == 0) + 1
    for part in np.split(np.arange(len(bands.distance)), breaks):
        distance, frequencies = bands.distance[part], bands.frequencies_thz[part]
        axes.plot(distance, frequencies, color=ACCENT, linewidth=1.2)
        axes.plot(distance, np.where(frequencies < 0, frequencies, np.nan), color=SECOND, linewidth=1.6)
    names: dict[float, str] = {}
    for tick, label in zip(bands.ticks, bands.labels, strict=True):
        names[tick] = label if names.get(tick, label) == label else f"{names[tick]}|{label}"
    axes.set_xticks(list(names), list(names.values()))
    axes.grid(visible=False, axis="y")
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.set_xlim(bands.distance[0], bands.distance[-1])
    lowest, highest = float(bands.frequencies_thz.min()), float(bands.frequencies_thz.max())
    axes.set_ylim(1.1 * lowest if bands.imaginary else 0.0, 1.08 * max(highest, 0.1))
    axes.set_ylabel("frequency (THz)")
    points = ", ".join(dict.fromkeys(mode.point for mode in bands.imaginary))
    axes.set_title(f"phonons, imaginary below zero at {points}" if points else "phonons", fontsize=9)


def draw_density(axes: Axes, bands: PhononBands) -> None:
    """Density of states beside the bands."""
    axes.fill_betweenx(bands.dos_frequencies_thz, bands.dos, color=ACCENT, alpha=0.3, linewidth=0)
    axes.plot(bands.dos, bands.dos_frequencies_thz, color=ACCENT, linewidth=1.2)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.set_xlim(left=0.0)
    axes.tick_params(labelleft=False)
    axes.set_xlabel("states per THz")


def draw_normal_modes(axes: Axes, found: MoleculeProperties) -> None:
    """A line for each normal mode, below the sum of Gaussians; imaginary ones left of zero in another colour."""
    frequencies = found.frequencies_cm
    if len(frequencies):
        low, high = min(0.0, float(frequencies.min()) - 100), float(frequencies.max()) + 200
        places = np.linspace(low, high, 1500)
        peaks = np.exp(-0.5 * ((places[:, None] - frequencies) / PEAK_WIDTH) ** 2).sum(axis=1)
        axes.fill_between(places, peaks, color=ACCENT, alpha=0.2, linewidth=0)
        for chosen, colour in ((frequencies >= 0, ACCENT), (frequencies < 0, SECOND)):
            axes.vlines(frequencies[chosen], 0, 1, color=colour, linewidth=1.2)
        axes.set_xlim(low, high)
    axes.set_ylim(bottom=0.0)
    axes.set(xlabel="wavenumber (cm⁻¹)", ylabel="normal modes (Gaussians of 15 cm⁻¹)")
