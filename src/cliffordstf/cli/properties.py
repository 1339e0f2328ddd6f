"""`cliffordstf properties`: what a model predicts for a crystal or a molecule at rest."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from cliffordstf.cli.options import AddModel, Dispersion
from cliffordstf.cli.reading import MODEL, STRUCTURE, read_one, with_reading_options
from cliffordstf.data.structure import FloatArray
from cliffordstf.host.files import write_atomically, write_json
from cliffordstf.integrations.ase import Calculator
from cliffordstf.report.markup import plain
from cliffordstf.report.properties import write_properties_png
from cliffordstf.simulate.output import append_frame, frozen
from cliffordstf.simulate.properties.bands import PhononBands
from cliffordstf.simulate.properties.crystal import CrystalProperties, PropertySettings, crystal_properties
from cliffordstf.simulate.properties.elastic import Moduli
from cliffordstf.simulate.properties.molecule import MoleculeProperties, molecule_properties
from cliffordstf.simulate.stress import VOIGT


@with_reading_options
def properties(
    model: Annotated[str, typer.Argument(help=MODEL)],
    file: Annotated[list[str], typer.Argument(help=f"{STRUCTURE}.", metavar="FILE [data.KEY=VALUE...]")],
    reading: dict[str, Any] | None = None,
    add_model: AddModel = None,
    figure: Annotated[Path, typer.Option(help="PNG file.")] = Path("properties.png"),
    json: Annotated[Path | None, typer.Option(help="Also write all results to this file.")] = None,
    out: Annotated[Path | None, typer.Option(help="extxyz file for the relaxed structure.")] = None,
    fmax: Annotated[float, typer.Option(help="Largest force of every relaxation, eV/Å; cell: eV per atom.")] = 1e-4,
    steps: Annotated[int, typer.Option(help="Most steps of each relaxation.")] = 1000,
    symprec: Annotated[float, typer.Option(help="How far atoms may be from symmetric positions, Å.")] = 0.01,
    strain: Annotated[float, typer.Option(help="Of the elastic tensor.")] = 0.005,
    span: Annotated[float, typer.Option(help="Largest relative change of the volume.")] = 0.06,
    supercell: Annotated[
        tuple[int, int, int] | None, typer.Option(help="Repeats for phonons; by default 10 Å wide.")
    ] = None,
    elastic: Annotated[bool, typer.Option(help="Compute the elastic tensor.")] = True,
    phonons: Annotated[bool, typer.Option(help="Compute phonons.")] = True,
    index: Annotated[int, typer.Option(help="Which structure of FILE; -1 is the last.")] = -1,
    device: Annotated[str, typer.Option(help="For example cpu or cuda.")] = "cpu",
    d3: Dispersion = None,
) -> None:
    """Relax a structure of FILE and compute its properties; the space group of a crystal is kept.

    Crystals: lattice constants, equation of state, elastic tensor, phonons. Molecules: normal modes and rotational
    constants. Crystals need pip install 'cliffordstf[properties]'.
    """
    settings = PropertySettings(
        fmax, steps, symprec, strain, span, supercell=supercell, elastic=elastic, phonons=phonons
    )
    atoms = read_one(file, reading or {}, index)
    calculator = Calculator([model, *(add_model or [])], device=device, dispersion=d3)
    found: CrystalProperties | MoleculeProperties
    if atoms.pbc.any():
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("relaxation")
            found = crystal_properties(
                atoms,
                calculator,
                settings,
                lambda name, done, total: progress.update(task, description=name, completed=done, total=total),
            )
        lines = _crystal_lines(found)
    else:
        found = molecule_properties(atoms, calculator, fmax, steps)
        lines = _molecule_lines(found)
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(line)
    write_properties_png(found, f"{found.formula}, {model}", figure)
    written = [figure]
    if json is not None:
        write_json(json, plain(asdict(found)))
        written.append(json)
    if out is not None:
        atoms.get_forces()  # the calculator has seen other structures since
        write_atomically(out, lambda target: append_frame(target, frozen(atoms)))
        written.append(out)
    console.print(f"written to {', '.join(map(str, written))}")


def _crystal_lines(found: CrystalProperties) -> Iterator[str]:
    group, curve = found.space_group, found.equation_of_state
    yield f"space group     {group.symbol} ({group.number}), atoms in the conventional cell: {group.atoms}"
    yield f"lattice         a, b, c = {', '.join(f'{value:.4f}' for value in group.lengths_a)} Å"
    yield f"                α, β, γ = {', '.join(f'{value:.3f}' for value in group.angles_deg)}°"
    yield f"energy          {found.energy_ev_atom:.6f} eV/atom"
    yield f"volume          {found.volume_a3_atom:.4f} Å³/atom, {found.density_g_cm3:.4f} g/cm³"
    yield f"bulk modulus    {curve.bulk_modulus_gpa:.2f} GPa, derivative {curve.derivative:.2f} (Birch-Murnaghan)"
    if found.elastic_gpa is not None and found.moduli is not None:
        yield from _elastic_lines(found.elastic_gpa, found.moduli)
    if found.phonons is not None:
        yield from _phonon_lines(found.phonons)


def _elastic_lines(tensor: FloatArray, moduli: Moduli) -> Iterator[str]:
    yield "elastic tensor  GPa, Cartesian axes of the structure, ions relaxed"
    yield f"{'':16}{''.join(f'{name:>9}' for name in VOIGT)}"
    for name, row in zip(VOIGT, tensor, strict=True):
        yield f"{name:>15} {''.join(f'{value + 0.0:9.2f}' for value in row.round(2))}"
    if not moduli.stable:
        lowest = moduli.eigenvalues_gpa[0]
        yield f"[bold red]not stable[/]      a strain lowers the energy: smallest eigenvalue {lowest:.2f} GPa"
        return
    for name in ("bulk", "shear"):
        voigt, reuss, hill = (getattr(moduli, f"{name}_{kind}_gpa") for kind in ("voigt", "reuss", "hill"))
        yield f"{name + ' modulus':15} {hill:.2f} GPa (Hill), {voigt:.2f} (Voigt), {reuss:.2f} (Reuss)"
    yield (
        f"Young's modulus {moduli.young_gpa:.2f} GPa, Poisson ratio {moduli.poisson:.3f}, "
        f"anisotropy {moduli.anisotropy:.3f}; mechanically stable"
    )


def _phonon_lines(bands: PhononBands) -> Iterator[str]:
    yield (
        f"phonons         up to {bands.frequencies_thz.max():.3f} THz, supercell "
        f"{' × '.join(map(str, bands.supercell))}, path {' '.join(bands.labels)}"
    )
    for mode in bands.imaginary:
        yield f"[bold red]imaginary[/]       {-mode.frequency_thz:.3f}i THz at {mode.point}"
    if bands.zero_point_energy_ev is not None and bands.heat_capacity_j_k_mol is not None:
        yield (
            f"                zero-point energy {bands.zero_point_energy_ev / bands.atoms:.4f} eV/atom, heat capacity "
            f"{bands.heat_capacity_j_k_mol / bands.atoms:.2f} J/K/mol of atoms at 298.15 K"
        )


def _molecule_lines(found: MoleculeProperties) -> Iterator[str]:
    yield f"molecule        {found.formula}"
    yield f"energy          {found.energy_ev:.6f} eV"
    yield f"zero-point      {found.zero_point_energy_ev:.4f} eV"
    if found.rotational_constants_cm:
        yield f"rotation        {', '.join(f'{value:.5f}' for value in found.rotational_constants_cm)} cm⁻¹"
        yield f"                {', '.join(f'{value:.4f}' for value in found.rotational_constants_ghz)} GHz"
    real = found.frequencies_cm[found.frequencies_cm >= 0]
    for start in range(0, len(real), 8):
        name = "normal modes" if start == 0 else ""
        unit = " cm⁻¹" if start + 8 >= len(real) else ""
        yield f"{name:15} {' '.join(f'{value:7.1f}' for value in real[start : start + 8])}{unit}"
    for frequency, moving in zip(found.frequencies_cm, found.imaginary, strict=False):
        yield f"[bold red]imaginary[/]       {-frequency:.1f}i cm⁻¹, moves {moving}: not a minimum"
