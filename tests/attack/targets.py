"""Small genuine files of every kind, and how each is opened."""

import json
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import lmdb
import numpy as np
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.db import connect
from ase.io import write
from ase.io.trajectory import Trajectory

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.engine.export import export_native
from cliffordstf.errors import CliffordSTFError, ModelFileError
from cliffordstf.kernels.native.runtime import NativeModel, RuntimeLibraryError, is_available
from cliffordstf.model.build import build
from cliffordstf.model.file import load_model, save_model
from cliffordstf.model.potential import Potential
from cliffordstf.simulate.restart import State, load_state, save_state
from cliffordstf.train.checkpoint import load_checkpoint, save_checkpoint
from cliffordstf.train.config import load_config
from tests.data.readers.graph_objects import graph_pickle, slab, write_lmdb

FRAMES = 12


@dataclass(frozen=True)
class Target:
    """A kind of file.

    Attributes:
        name: What it is called in tables.
        make: Writes a genuine file into a folder and returns its path.
        open: Opens a file; returns how many structures came without a warning, None if there was a warning.
        whole: What `open` returns for the genuine file.
    """

    name: str
    make: Callable[[Path], Path]
    open: Callable[[Path], int | None]
    whole: int = 1


LIMITS = {"gigabytes": 0.5, "seconds": 20}


def _structures(path: Path) -> int | None:
    loaded = load_frames(path, ReadOptions(limits=LIMITS))
    # Files without labels are genuine, too: that warning tells nothing of structures.
    return None if any(not warning.startswith("no ") for warning in loaded.warnings) else len(loaded.frames)


def _frames() -> list[Atoms]:
    random = np.random.default_rng(0)
    images = []
    for index in range(FRAMES):
        atoms = Atoms("OH2", random.normal(size=(3, 3)) + 3 * np.eye(3), cell=[9] * 3, pbc=True)
        atoms.calc = SinglePointCalculator(atoms, energy=-1.0 - index, forces=random.normal(size=(3, 3)))
        images.append(atoms)
    return images


def _xyz(folder: Path) -> Path:
    write(folder / "file.extxyz", _frames())
    return folder / "file.extxyz"


def _xz(folder: Path) -> Path:
    path = folder / "file.extxyz.xz"
    path.write_bytes(lzma.compress(_xyz(folder).read_bytes()))
    return path


def _traj(folder: Path) -> Path:
    with Trajectory(folder / "file.traj", "w") as stream:
        for atoms in _frames():
            stream.write(atoms)
    return folder / "file.traj"


def _db(folder: Path) -> Path:
    with connect(folder / "file.db") as database:
        for atoms in _frames():
            database.write(atoms, data={"extra": [1.0, 2.0]})
    return folder / "file.db"


def _aselmdb(folder: Path) -> Path:
    environment = lmdb.open(str(folder / "file.aselmdb"), subdir=False, map_size=1 << 22, lock=False)
    with environment.begin(write=True) as transaction:
        for index, atoms in enumerate(_frames()):
            row = {"numbers": [8, 1, 1], "positions": atoms.positions.tolist(), "energy": -1.0}
            row["forces"] = atoms.get_forces().tolist()
            transaction.put(str(index + 1).encode(), zlib.compress(json.dumps(row).encode()))
        transaction.put(b"nextid", zlib.compress(str(FRAMES + 1).encode()))
    environment.close()
    return _compacted(folder / "file.aselmdb")


def _compacted(path: Path) -> Path:
    """Without the empty end of a new database, where damage would hit nothing."""
    environment = lmdb.open(str(path), subdir=False, readonly=True)
    copy = path.with_name("copy")
    environment.copy(str(copy), compact=True)
    environment.close()
    copy.replace(path)
    return path


def _oc20(folder: Path) -> Path:
    write_lmdb(folder / "file.lmdb", [graph_pickle(_slab(number), version=2) for number in range(FRAMES)], FRAMES)
    return _compacted(folder / "file.lmdb")


def _slab(number: int) -> dict[str, object]:
    return {**slab(number), "y": -1.0, "force": torch.zeros(3, 3)}


def _pickle(folder: Path) -> Path:
    path = folder / "file.pkl"
    path.write_bytes(graph_pickle(*(_slab(number) for number in range(FRAMES)), version=2, as_list=True))
    return path


def _npz(folder: Path) -> Path:
    random, path = np.random.default_rng(0), folder / "file.npz"
    arrays = {"coords": random.normal(size=(FRAMES, 3, 3)), "forces": random.normal(size=(FRAMES, 3, 3))}
    np.savez(path, nuclear_charges=[8, 1, 1], energies=random.normal(size=FRAMES), **arrays)
    return path


def _hdf5(folder: Path) -> Path:
    with h5py.File(folder / "file.h5", "w") as file:
        for index, atoms in enumerate(_frames()):
            group = file.create_group(f"molecule {index}")
            group["atomic_numbers"], group["positions"] = atoms.numbers, atoms.positions
            group["energy"], group["forces"] = -1.0, atoms.get_forces()
    return folder / "file.h5"


def _sdf(folder: Path) -> Path:
    block = "mol {}\n  prog\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n"
    block += "    0.0000    0.0000    0.0000 C   0  0\n    1.2000    0.0000    0.0000 O   0  0\n"
    path = folder / "file.sdf"
    path.write_text("".join((block + "  1  2  2  0\nM  END\n$$$$\n").format(number) for number in range(FRAMES)))
    return path


def _mlearn(folder: Path) -> Path:
    entries = []
    for atoms in _frames():
        sites = [
            {"species": [{"element": s, "occu": 1}], "xyz": p.tolist()}
            for s, p in zip("OHH", atoms.positions, strict=True)
        ]
        structure = {"lattice": {"matrix": (9.0 * np.eye(3)).tolist()}, "sites": sites}
        outputs = {"energy": -1.0, "forces": atoms.get_forces().tolist()}
        entries.append({"structure": structure, "outputs": outputs, "group": "water"})
    (folder / "file.json").write_text(json.dumps(entries))
    return folder / "file.json"


def _poscar(folder: Path) -> Path:
    write(folder / "POSCAR", _frames()[0])
    return folder / "POSCAR"


def _cif(folder: Path) -> Path:
    write(folder / "file.cif", _frames()[0])
    return folder / "file.cif"


def small_potential() -> Potential:
    """The default model, as small as it gets."""
    return build("default/small", ["H", "O"], seed=0, channels=4, hidden=4)


def write_model(folder: Path) -> Path:
    """A model file."""
    potential = small_potential()
    potential.learn_domain([potential.batch(_frames())])
    return save_model(potential, folder / "model.safetensors", {"note": "an attack"})


def _open_model(path: Path) -> int:
    load_model(path)
    return 1


def write_checkpoint(folder: Path) -> Path:
    """A checkpoint."""
    potential = small_potential()
    optimizer = torch.optim.AdamW(potential.parameters())
    save_checkpoint(folder / "last.ckpt", potential, optimizer, None, {"progress": {"step": 1}, "schedule": {}})
    return folder / "last.ckpt"


def _open_checkpoint(path: Path) -> int:
    potential = small_potential()
    load_checkpoint(path, potential, torch.optim.AdamW(potential.parameters()), None)
    return 1


def write_native(folder: Path) -> Path:
    """An exported model."""
    export_native(small_potential(), folder / "model.cstf")
    return folder / "model.cstf"


def _open_native(path: Path) -> int:
    try:
        NativeModel(path.read_bytes(), torch.float32)
    except RuntimeLibraryError as error:  # the error of the library, which the package wraps
        raise ModelFileError(str(error)) from None
    return 1


def write_restart(folder: Path) -> Path:
    """A restart file of dynamics."""
    random = dict(np.random.default_rng(0).bit_generator.state)
    atoms, zeros = _frames()[0], np.zeros((3, 3))
    settings = {"ensemble": "nvt", "timestep": 0.5}
    save_state(
        folder / "md.restart.npz",
        State(7, settings, atoms.numbers, atoms.positions, zeros, atoms.cell.array, atoms.pbc, random),
    )
    return folder / "md.restart.npz"


def _open_restart(path: Path) -> int:
    load_state(path)
    return 1


def _yaml(folder: Path) -> Path:
    text = (
        "data:\n  train: a.xyz\n  valid: 0.1\nmodel:\n  preset: default\n  lmax: 2\noptimizer:\n  learning_rate: 1e-3\n"
    )
    (folder / "config.yaml").write_text(text + "epochs: 7\nbudget: 20min\nloggers: [tensorboard]\n")
    return folder / "config.yaml"


def _open_yaml(path: Path) -> int:
    load_config(path, [])
    return 1


TARGETS = [
    Target("extended XYZ", _xyz, _structures, FRAMES),
    Target("extended XYZ, xz", _xz, _structures, FRAMES),
    Target("ASE .traj", _traj, _structures, FRAMES),
    Target("ASE .db", _db, _structures, FRAMES),
    Target("ASE-LMDB", _aselmdb, _structures, FRAMES),
    Target("OC20 LMDB", _oc20, _structures, FRAMES),
    Target("OC22 pickle", _pickle, _structures, FRAMES),
    Target("npz", _npz, _structures, FRAMES),
    Target("HDF5", _hdf5, _structures, FRAMES),
    Target("SDF", _sdf, _structures, FRAMES),
    Target("mlearn JSON", _mlearn, _structures, FRAMES),
    Target("POSCAR", _poscar, _structures),
    Target("CIF", _cif, _structures),
    Target("model file", write_model, _open_model),
    Target("checkpoint", write_checkpoint, _open_checkpoint),
    Target("restart file", write_restart, _open_restart),
    Target("YAML config", _yaml, _open_yaml),
]
"""What is attacked; `.cstf` files only where the runtime can be built."""
if is_available(torch.float32):
    TARGETS.append(Target("native .cstf", write_native, _open_native))


def outcome(target: Target, path: Path) -> str:
    """What comes of opening a file: opened, warned, refused, lost (fewer structures without a word) or traceback."""
    try:
        found = target.open(path)
    except CliffordSTFError as error:
        return "refused" if "\n" not in str(error) else "traceback"
    except Exception:
        return "traceback"
    if found is None:
        return "warned"
    return "opened" if found >= target.whole else "lost"
