"""Formats made of arrays: mlearn JSON, npz, HDF5, DeePMD folders, ASE-LMDB."""

import json
import zlib

import ase.io
import h5py
import lmdb
import numpy as np
import pytest
from ase import Atoms
from ase.units import Bohr, GPa, Hartree

from cliffordstf.data.neighbours import edge_vectors, neighbour_list
from cliffordstf.data.readers import read_frames
from cliffordstf.data.units import Units
from cliffordstf.errors import DataError, StructureError


@pytest.mark.parametrize(("element", "cutoff"), [("Si", 5.5), ("Li", 6.5)])
def test_mlearn_stress_has_the_sign_and_order_of_the_forces(real_data, element, cutoff):
    """A pair potential fitted to forces alone predicts every component of the stress, sign, order and size."""
    frames, source = read_frames(real_data / "mlearn" / f"{element}_training.json")
    assert source.units["stress"] == "-kbar"
    assert len(source.warnings) == 2
    centres = np.linspace(2.0, cutoff, 16)
    force_rows, force_labels, virials, stresses = [], [], [], []
    for frame in frames[::4]:
        if not np.isfinite(frame.stress).all():  # the order of its shear components could not be established
            continue
        structure = frame.structure
        edges = neighbour_list(structure, cutoff)
        vectors = edge_vectors(structure.positions, structure.cell, edges)
        r = np.linalg.norm(vectors, axis=1)
        basis = np.exp(-(((r[:, None] - centres) / (centres[1] - centres[0])) ** 2))
        basis *= 0.5 * (1 + np.cos(np.pi * r / cutoff))[:, None]
        rows = np.zeros((len(structure), 3, 16))
        np.add.at(rows, edges.receivers, basis[:, None, :] * (vectors / r[:, None])[:, :, None])
        force_rows.append(rows.reshape(-1, 16))
        force_labels.append(frame.forces.ravel())
        volume = abs(np.linalg.det(structure.cell))
        virials.append(np.einsum("ek,ea,eb,e->abk", basis, vectors, vectors, 1 / r) / (2 * volume))
        stresses.append(frame.stress)
    weights = np.linalg.lstsq(np.concatenate(force_rows), np.concatenate(force_labels), rcond=None)[0]
    predicted, labels = np.array(virials) @ weights, np.array(stresses)
    for a, b in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)):
        assert np.corrcoef(predicted[:, a, b], labels[:, a, b])[0, 1] > 0.8, (a, b)
    shear = predicted[:, [1, 0, 0], [2, 2, 1]].ravel()
    assert shear @ labels[:, [1, 0, 0], [2, 2, 1]].ravel() / (shear @ shear) == pytest.approx(1.0, abs=0.25)


def test_mlearn_values_and_the_warnings_for_wrong_stress(real_data):
    path = real_data / "mlearn/Si_training.json"
    stress = read_frames(path)[0][0].stress / (-0.1 * GPa)
    np.testing.assert_allclose(stress[[0, 1, 2], [0, 1, 2]], [-6.58094686, -9.63365488, -2.75897261])
    np.testing.assert_allclose(stress[[0, 0, 1], [1, 2, 2]], [9.08682588, -1.60618898, -5.41948494])
    assert any("sign is probably that of VASP" in text for text in read_frames(path, Units(stress="kbar"))[1].warnings)
    wrong_unit = read_frames(path, Units(stress="-eV/Å³"))[1].warnings
    assert sum("if they are in GPa, kbar or bar" in text for text in wrong_unit) == 1


POSITIONS = np.arange(18.0).reshape(2, 3, 3)
FORCES = -POSITIONS
NUMBERS = np.array([8, 1, 1])


def test_sgdml_states_units_and_lattice_columns(tmp_path):
    lattice = np.array([[10.0, 2, 0], [0, 11, 0], [0, 0, 12]])
    stated = {"e_unit": "eV", "r_unit": b"bohr"}
    np.savez(tmp_path / "a.npz", z=NUMBERS, R=POSITIONS, E=np.array([[1.0], [2]]), F=FORCES, lattice=lattice, **stated)
    frames, source = read_frames(tmp_path / "a.npz")
    assert source.units["forces"] == "eV/bohr"
    assert source.warnings == ()
    np.testing.assert_allclose(frames[1].structure.cell, lattice.T * Bohr)
    assert frames[1].structure.pbc.all()
    assert frames[1].energy == 2
    np.testing.assert_allclose(frames[1].forces, FORCES[1] / Bohr)


def test_npz_with_other_keys_or_python_objects(tmp_path):
    np.savez(tmp_path / "a.npz", atoms=NUMBERS, xyz=POSITIONS)
    with pytest.raises(DataError, match=r"has the keys atoms, xyz, which are neither"):
        read_frames(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", nuclear_charges=NUMBERS, coords=np.array([{"run": "me"}], dtype=object))
    with pytest.raises(DataError, match="Python objects under 'coords', which could run code"):
        read_frames(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", nuclear_charges=NUMBERS, coords=POSITIONS, energies=np.zeros(3))
    with pytest.raises(DataError, match="2 sets of positions but 3 of 'energies'"):
        read_frames(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", nuclear_charges=NUMBERS[:2], coords=POSITIONS)
    with pytest.raises(DataError, match="do not belong to 2 atoms"):
        read_frames(tmp_path / "d.npz")


def test_hdf5_with_stacked_frames_and_stated_units(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("mol_10", "mol_2"):
            group = file.create_group(f"set/{name}")
            group["atomic_numbers"] = NUMBERS
            group["coordinates"] = POSITIONS
            group["coordinates"].attrs["units"] = "bohr"
            group["dft_total_energy"] = np.array([-1.0, -2.0])
            group["dft_total_energy"].attrs["units"] = "hartree"
            group["forces"] = FORCES
            group["forces"].attrs["units"] = "hartree/bohr"
            group["cell"] = np.eye(3) * 20
            group["pbc"] = np.array([True, True, False])
    frames, source = read_frames(tmp_path / "a.h5", limit=3)
    assert [frame.structure.name for frame in frames[1:]] == [
        "a.h5, frame 1 (set/mol_2)",
        "a.h5, frame 2 (set/mol_10)",
    ]
    assert (frames[1].energy, source.keys["energy"]) == (-2 * Hartree, "dft_total_energy")
    np.testing.assert_allclose(frames[1].structure.positions, POSITIONS[1] * Bohr)
    np.testing.assert_allclose(frames[1].forces, FORCES[1] * Hartree / Bohr)
    assert frames[1].structure.pbc.tolist() == [True, True, False]
    assert frames[1].structure.cell[2, 2] == pytest.approx(20 * Bohr)


def test_hdf5_mistakes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x/y"] = np.zeros(3)
    with pytest.raises(DataError, match=r"no group with numbers and positions \(it holds x, x/y\)"):
        read_frames(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["numbers"], file["positions"], file["energy"] = NUMBERS, POSITIONS, np.zeros(5)
    with pytest.raises(DataError, match=r"b\.h5, group '/': there are 2 sets of positions but 5 of 'energy'"):
        read_frames(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["numbers"], file["positions"] = NUMBERS, np.full((3, 3), np.nan)
    with pytest.raises(StructureError, match=r"c\.h5, frame 0 has a position"):
        read_frames(tmp_path / "c.h5")


def deepmd_system(path, periodic=True):
    folder = path / "set.000"
    folder.mkdir(parents=True)
    (path / "type.raw").write_text("0\n1\n1\n")
    (path / "type_map.raw").write_text("O\nH\n")
    np.save(folder / "coord.npy", POSITIONS.reshape(2, 9))
    np.save(folder / "energy.npy", np.array([-1.0, -2.0]))
    np.save(folder / "force.npy", FORCES.reshape(2, 9))
    if periodic:
        # A left-handed cell, whose determinant is -1000.
        np.save(folder / "box.npy", np.tile(np.diag([10.0, 10, -10]).ravel(), (2, 1)))
        np.save(folder / "virial.npy", np.tile(np.arange(9.0), (2, 1)))
    else:
        (path / "nopbc").touch()
    return path


def test_deepmd_virial_and_molecules(tmp_path):
    frames, source = read_frames(deepmd_system(tmp_path / "crystal"))
    assert source.keys == {"energy": "energy", "forces": "force", "stress": "virial"}
    np.testing.assert_allclose(frames[1].stress * -1000, [[0, 2, 4], [2, 4, 6], [4, 6, 8]])
    np.testing.assert_array_equal(frames[1].forces, FORCES[1])
    frames, _ = read_frames(deepmd_system(tmp_path / "molecule", periodic=False))
    assert not frames[0].structure.pbc.any()
    assert frames[0].structure.numbers.tolist() == [8, 1, 1]


def test_deepmd_mixed_systems_drop_virtual_atoms(tmp_path):
    path = deepmd_system(tmp_path / "mixed")
    np.save(path / "set.000/real_atom_types.npy", np.array([[0, 1, 1], [1, -1, 0]]))
    frames, _ = read_frames(path)
    assert frames[1].structure.numbers.tolist() == [1, 8]
    np.testing.assert_array_equal(frames[1].forces, FORCES[1][[0, 2]])


def test_deepmd_mistakes(tmp_path):
    path = deepmd_system(tmp_path / "a")
    (path / "type_map.raw").write_text("O\n")
    with pytest.raises(DataError, match=r"uses type 1 but type_map.raw names only 1"):
        read_frames(path)
    (path / "type_map.raw").unlink()
    with pytest.raises(DataError, match=r"a has no type_map.raw"):
        read_frames(path)
    path = deepmd_system(tmp_path / "b")
    (path / "set.000/box.npy").unlink()
    with pytest.raises(DataError, match=r"b/set.000 has no box.npy"):
        read_frames(path)


def test_aselmdb_rows_come_in_the_order_of_their_ids(tmp_path):
    path = tmp_path / "a.aselmdb"
    with (
        lmdb.open(str(path), subdir=False, map_size=1 << 20) as environment,
        environment.begin(write=True) as transaction,
    ):
        for number in (1, 2, 10):
            row = {
                "numbers": {"__ndarray__": [[1], "int64", [number]]},
                "positions": [[0.0, 0.0, 0.0]],
                "energy": -float(number),
                "data": {"charge": 0},
            }
            transaction.put(str(number).encode(), zlib.compress(json.dumps(row).encode()))
        transaction.put(b"nextid", zlib.compress(b"11"))
    frames, _ = read_frames(path)
    assert [frame.energy for frame in frames] == [-1, -2, -10]
    with lmdb.open(str(path), subdir=False) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"3", b"damaged")
    with pytest.raises(DataError, match=r"a\.aselmdb has a damaged row under id 3"):
        read_frames(path)


@pytest.mark.parametrize("element", ["Si", "Li"])
def test_gpa_read_as_electronvolts_is_noticed(real_data, tmp_path, element):
    frames, _ = read_frames(real_data / "mlearn" / f"{element}_training.json")
    images = []
    for frame in frames:
        atoms = Atoms(frame.structure.numbers, frame.structure.positions, cell=frame.structure.cell, pbc=True)
        atoms.info["stress"] = np.nan_to_num(frame.stress) / GPa
        images.append(atoms)
    ase.io.write(tmp_path / "gpa.extxyz", images)
    text = "if they are in GPa, kbar or bar, set the unit of stress"
    assert any(text in warning for warning in read_frames(tmp_path / "gpa.extxyz")[1].warnings)
    right = read_frames(tmp_path / "gpa.extxyz", Units(stress="GPa"))
    assert not any(text in warning for warning in right[1].warnings)
    np.testing.assert_allclose(right[0][0].stress, np.nan_to_num(frames[0].stress), atol=1e-9)


def test_units_of_stress_and_forces(tmp_path):
    atoms = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2]], cell=np.eye(3) * 4, pbc=True)
    atoms.info["stress"] = np.eye(3) * 100.0
    atoms.arrays["forces"] = np.ones((2, 3))
    ase.io.write(tmp_path / "a.extxyz", [atoms])
    units = {"bar": 1e-4 * GPa, "-kbar": -0.1 * GPa, "GPa": GPa, "Hartree/bohr³": Hartree / Bohr**3}
    for name, factor in units.items():
        frame = read_frames(tmp_path / "a.extxyz", Units(stress=name))[0][0]
        assert frame.stress[0, 0] == pytest.approx(100 * factor)
    frame = read_frames(tmp_path / "a.extxyz", Units(energy="Hartree", forces="Hartree/bohr"))[0][0]
    assert frame.forces[0, 0] == pytest.approx(Hartree / Bohr)
    assert read_frames(tmp_path / "a.extxyz", Units(energy="Hartree"))[0][0].forces[0, 0] == pytest.approx(Hartree)
