"""Runs LAMMPS on a structure and reads back what it found."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ase import Atoms

from cliffordstf.integrations.lammps.build import build_plugin
from cliffordstf.integrations.lammps.installation import lammps_command
from cliffordstf.integrations.lammps.structure import Box, make_box

BAR = 1 / 1.6021765e6
"""eV/Å³, with the constant of LAMMPS, which has eight digits."""
COLUMNS = "id fx fy fz c_energies c_stresses[1] c_stresses[2] c_stresses[3] c_stresses[4] c_stresses[5] c_stresses[6]"


@dataclass
class Found:
    """What LAMMPS found, in ASE's units and frame; frames one after the other."""

    energies: list[float]
    forces: list[np.ndarray]
    atom_energies: list[np.ndarray]
    stresses: list[np.ndarray]  # eV/Å³, (3, 3)
    atom_virials: list[np.ndarray]  # eV, (atoms, 3, 3), stress times volume
    positions: list[np.ndarray]  # Å, up to one shift of all
    output: str


def run_script(folder: Path, script: str, ranks: int = 1) -> subprocess.CompletedProcess:
    """Run commands with the plugin loaded."""
    (folder / "in.test").write_text(f"plugin load {build_plugin()}\n{script}")
    return run_in(folder, "in.test", ranks)


def run_in(folder: Path, script: str, ranks: int) -> subprocess.CompletedProcess:
    """Run a script of a folder."""
    command, environment = lammps_command(ranks)
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run(
        [*command, "-in", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def start(folder: Path, atoms: Atoms, elements: list[str] | None = None) -> tuple[Box, str]:
    """The data file, and the lines of a script that read it."""
    box = make_box(atoms, elements)
    box.write(folder / "atoms.data")
    lines = ["units metal", "atom_style atomic", f"boundary {box.boundary}", "read_data atoms.data"]
    return box, "\n".join(lines)


def evaluate(
    folder: Path,
    atoms: Atoms,
    style: str,
    coefficients: str,
    ranks: int = 1,
    before: str = "",
    elements: list[str] | None = None,
    action: str = "run 0",
) -> Found:
    """Energies, forces, stresses of a structure and of those that the action leads to, every 10 steps.

    Args:
        style, coefficients: Arguments of pair_style and pair_coeff.
        before: Commands before the box, for example `processors 2 1 1`.
    """
    box, first = start(folder, atoms, elements)
    script = f"""{before}
{first}
pair_style {style}
pair_coeff {coefficients}
neighbor 0.6 bin
neigh_modify every 1 delay 0 check yes
compute energies all pe/atom pair
compute stresses all stress/atom NULL pair
compute pressure all pressure NULL pair
variable energy equal pe
thermo_style custom step pe c_pressure[1] c_pressure[2] c_pressure[3] c_pressure[4] c_pressure[5] c_pressure[6]
thermo_modify format float %.17g
thermo_modify norm no
thermo 10
dump positions all custom 10 positions.dump {COLUMNS} x y z
dump_modify positions sort id format float %.17g
{action}
"""
    done = run_script(folder, script, ranks)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr
    return read(folder, box, done.stdout)


def read(folder: Path, box: Box, output: str) -> Found:
    """What `evaluate`'s script wrote."""
    thermo = read_thermo(output)
    found = Found(list(thermo[:, 1]), [], [], [], [], [], output)
    for row in thermo:
        found.stresses.append(-BAR * _to_ase(box, row[2:8]))
    for table in read_dump(folder / "positions.dump"):
        found.forces.append(box.vectors_to_ase(table[:, 1:4]))
        found.atom_energies.append(table[:, 4])
        found.atom_virials.append(BAR * np.array([_to_ase(box, row) for row in table[:, 5:11]]))
        found.positions.append(box.vectors_to_ase(table[:, 11:14]))
    return found


def _to_ase(box: Box, six: np.ndarray) -> np.ndarray:
    """Tensor of LAMMPS's order xx, yy, zz, xy, xz, yz in the structure's frame."""
    xx, yy, zz, xy, xz, yz = six
    return box.prism.tensor2_to_ase(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def read_thermo(output: str) -> np.ndarray:
    """Lines of numbers of all runs."""
    rows = []
    is_inside = False
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["Step"]:
            is_inside = True
        elif line.startswith("Loop time"):
            is_inside = False
        elif is_inside and words and words[0].isdigit():
            rows.append([float(word) for word in words])
    return np.array(rows)


def read_dump(path: Path) -> list[np.ndarray]:
    """Tables of a dump file."""
    tables = []
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("ITEM: ATOMS")]
    frames = [i for i, line in enumerate(lines) if line.startswith("ITEM: TIMESTEP")]
    for begin, end in zip(starts, [*frames[1:], len(lines)], strict=True):
        tables.append(np.array([line.split() for line in lines[begin + 1 : end]], dtype=float))
    return tables
