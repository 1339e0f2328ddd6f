"""A LAMMPS script that runs: data file, exported model, commented commands."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ase import Atoms

from cliffordstf.data.structure import symbol
from cliffordstf.engine.export import export_native
from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text
from cliffordstf.integrations.lammps.structure import Box, make_box
from cliffordstf.model.potential import Potential

DATA, MODEL, SCRIPT, DUMP, RESTART = "structure.data", "model.cstf", "in.lammps", "run.dump", "run.restart"


@dataclass(frozen=True)
class RunSettings:
    """What the script does.

    Attributes:
        ensemble: `nve`, `nvt` (Langevin thermostat) or `npt` (Nosé-Hoover).
        temperature: K, of the thermostat and of velocities that are drawn.
        pressure: GPa, for `npt`.
        timestep: fs.
        steps: How many.
        precision: In which the model computes, `float32` or `float64`.
        seed: Of velocities and thermostat.
    """

    ensemble: str = "nvt"
    temperature: float = 300.0
    pressure: float = 0.0
    timestep: float = 0.5
    steps: int = 1000
    precision: str = "float32"
    seed: int = 1


def write_input(
    folder: Path, potentials: Sequence[Potential], atoms: Atoms, settings: RunSettings, plugin: Path | None
) -> Path:
    """Write a data file, the exported models and a script that runs them into a folder.

    Args:
        folder: Made if need be.
        potentials: One, or the members of an ensemble.
        atoms: The structure that the run starts from; its velocities are kept.
        settings: What the script does.
        plugin: File of the plugin; None where LAMMPS finds it through $LAMMPS_PLUGIN_PATH.

    Returns:
        The script.
    """
    if settings.ensemble == "npt" and not atoms.pbc.all():
        raise ConfigError("npt needs a structure that is periodic in three directions; choose nve or nvt.")
    folder.mkdir(parents=True, exist_ok=True)
    names = [MODEL] if len(potentials) == 1 else [f"model{number}.cstf" for number in range(len(potentials))]
    for name, potential in zip(names, potentials, strict=True):
        _check(potential, atoms)
        export_native(potential, folder / name)
    box = make_box(atoms)
    box.write(folder / DATA)
    write_text(folder / SCRIPT, script(box, names, settings, plugin))
    return folder / SCRIPT


def _check(potential: Potential, atoms: Atoms) -> None:
    unknown = sorted({symbol(int(number)) for number in atoms.numbers if int(number) not in potential.elements})
    if unknown:
        raise ConfigError(f"the structure has {', '.join(unknown)}, which the model was not trained for.")


def script(box: Box, models: Sequence[str], settings: RunSettings, plugin: Path | None) -> str:
    """The commands of a run."""
    atoms = box.atoms
    load = f"plugin load {plugin}" if plugin else "# The plugin is found through $LAMMPS_PLUGIN_PATH."
    parts = [
        f"# {atoms.get_chemical_formula()}, {settings.ensemble}; written by `cliffordstf lammps input`.",
        "# Å, eV, ps, K, bar. Every pair of atoms belongs to one rank.",
        "units metal\natom_style atomic\nnewton on",
        f"# p: periodic; s: not, and the box follows the atoms.\nboundary {box.boundary}\nread_data {DATA}",
        load,
        f"# Precision float32 or float64. After the model: the element of each atom type.\n"
        f"pair_style cliffordstf precision {settings.precision}\n"
        f"pair_coeff * * {' '.join(models)} {' '.join(box.elements)}",
        "# Margin of the neighbour list, Å; a new one is made when an atom has moved by half of it.\n"
        "neighbor 1.0 bin\nneigh_modify every 1 delay 0 check yes",
        *([] if atoms.has("momenta") else [_velocities(settings)]),
        _fixes(settings),
        f"timestep {settings.timestep / 1000:g}",
        _output(settings, box.elements, len(models) > 1),
        f"run {settings.steps}\nwrite_restart {RESTART}",
    ]
    return "\n\n".join(parts) + "\n"


def _velocities(settings: RunSettings) -> str:
    return f"velocity all create {settings.temperature:g} {settings.seed} mom yes rot yes dist gaussian"


def _fixes(settings: RunSettings) -> str:
    temperature = f"{settings.temperature:g} {settings.temperature:g}"
    if settings.ensemble == "npt":
        bar = f"{settings.pressure * 1e4:g}"
        return (
            "# Thermostat and barostat with times of 0.1 and 1 ps.\n"
            f"fix integrate all npt temp {temperature} 0.1 iso {bar} {bar} 1.0"
        )
    integrate = "fix integrate all nve"
    if settings.ensemble == "nve":
        return integrate
    thermostat = f"fix thermostat all langevin {temperature} 0.1 {settings.seed}"
    return f"# Langevin thermostat with a time of 0.1 ps.\n{integrate}\n{thermostat}"


def _output(settings: RunSettings, elements: Sequence[str], is_ensemble: bool) -> str:
    interval = max(1, settings.steps // 100)
    columns = "id element x y z vx vy vz fx fy fz"
    lines = []
    thermo = "step time temp pe etotal press vol"
    if is_ensemble:
        lines += [
            "# Spread of the ensemble's forces, eV/Å: of each atom, and the largest.",
            "fix spread all pair 1 cliffordstf force_std 0",
            "compute spread all pair cliffordstf",
        ]
        columns += " f_spread"
        thermo += " c_spread[1]"
    lines += [
        f"thermo_style custom {thermo}",
        f"thermo {interval}",
        f"dump frames all custom {interval} {DUMP} {columns}",
        f"dump_modify frames sort id element {' '.join(elements)}",
    ]
    return "\n".join(lines)
