"""The readers on genuine files where they are at hand, and on small files with one peculiarity each."""

import bz2
import gzip
import pickle

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.db import connect
from ase.units import Hartree, kcal, mol

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.convert import symmetric_matrix
from cliffordstf.data.units import LabelKeys, Units
from cliffordstf.errors import ConfigError, DataError, StructureError

KCAL = kcal / mol


@pytest.mark.parametrize("name", ["ethanol", "aspirin"])
def test_revised_md17_is_kcal_per_mol(real_data, name):
    path = real_data / "rmd17" / f"rmd17_{name}_train_01.npz"
    frames, source = read_frames(path)
    with np.load(path) as archive:
        raw = dict(archive)
    assert (source.format, source.units["forces"], len(frames)) == ("revised MD17 npz", "kcal/mol/Å", 1000)
    assert source.warnings == ()
    np.testing.assert_allclose([frame.energy for frame in frames], raw["energies"] * KCAL, rtol=1e-12)
    np.testing.assert_allclose(frames[7].forces, raw["forces"][7] * KCAL, rtol=1e-12)
    assert frames[12].structure.name == f"rmd17_{name}_train_01.npz, frame 12"


def test_sgdml_npz(real_data):
    frames, source = read_frames(real_data / "formats/ethanol_ccsd_t-train.npz")
    with np.load(real_data / "formats/ethanol_ccsd_t-train.npz") as archive:
        raw = dict(archive)
    assert (source.format, source.keys["energy"], source.keys["forces"]) == ("sGDML npz", "E", "F")
    assert frames[3].energy == pytest.approx(raw["E"][3, 0] * KCAL)
    assert -4215 < frames[3].energy < -4195  # eV: CCSD(T) ethanol is near -154.5 Hartree
    np.testing.assert_allclose(frames[3].forces, raw["F"][3] * KCAL)
    assert any("states no e_unit" in warning for warning in source.warnings)


def test_odd_keys_and_virial(real_data):
    frames, source = read_frames(real_data / "formats/carbon_reduced_100.xyz")
    assert source.keys == {"energy": "energy", "forces": "force", "stress": "virial"}
    assert frames[0].stress[0, 0] == pytest.approx(-17.67401361 / (2.321189 * 1.986034 * 6.457295), rel=1e-6)
    np.testing.assert_allclose(frames[0].forces[0], [1.84408021, 1.2005717, -0.34951743])
    assert source.warnings == ()


def test_energies_in_kcal_per_mol_are_noticed_in_extxyz(real_data):
    path = real_data / "formats/ethanol_reduced_100.xyz"
    frames, source = read_frames(path)
    assert frames[0].energy == pytest.approx(-97079.92222178938)
    assert any("look like kcal/mol" in warning for warning in source.warnings)
    frames, source = read_frames(path, Units(energy="kcal/mol"))
    assert frames[0].energy == pytest.approx(-97079.92222178938 * KCAL)
    assert frames[0].forces[0, 0] == pytest.approx(-32.31755688687498 * KCAL)
    assert source.warnings == ()


def test_hdf5_with_a_group_per_structure(real_data):
    frames, _ = read_frames(real_data / "formats/mlip_samples/spice2-1000_429_md_0-1.hdf5")
    assert [frame.energy for frame in frames] == pytest.approx([-33533.58818835873, -33533.94582957392])
    assert frames[0].structure.numbers.tolist() == [8, 8, 8, 16, 8, 8, 6, 6, 6, 15, 1, 1, 1]
    assert frames[0].forces[0, 0] == pytest.approx(-1.13442217)
    assert frames[1].structure.name.endswith("frame 1 (spice2-1000_429_md_1)")


def test_a_box_without_periodicity_is_a_molecule(real_data):
    frames, _ = read_frames(real_data / "acac/train_300K.xyz", limit=5)
    assert len(frames) == 5
    assert not frames[0].structure.pbc.any()
    assert not frames[0].structure.cell.any()
    assert frames[0].energy == pytest.approx(-9391.45554428476)
    assert frames[0].forces[0, 0] == pytest.approx(1.47339228)


def test_deepmd_folder_of_systems(real_data):
    frames, source = read_frames(real_data / "water_pbe0/data")
    raw = np.load(real_data / "water_pbe0/data/data_1/set.001/force.npy")
    assert (source.format, len(frames)) == ("DeePMD npy", 400)
    assert frames[0].energy == pytest.approx(-29943.90625)
    assert frames[0].structure.numbers[[0, 191]].tolist() == [8, 1]
    assert frames[0].structure.cell[1, 1] == pytest.approx(12.44466114)
    position = next(i for i, frame in enumerate(frames) if frame.structure.name.startswith("data_1")) + 80
    np.testing.assert_allclose(frames[position].forces.ravel(), raw[0], rtol=1e-6)


def test_mptrj(real_data):
    frames, source = read_frames(real_data / "mptrj/mptrj-random-1k.xyz")
    assert source.warnings == ()
    assert frames[0].energy == pytest.approx(-28.75765745)
    assert frames[0].stress[0, 2] == frames[0].stress[2, 0] == pytest.approx(0.00077462, rel=1e-5)
    assert frames[0].structure.cell[0].tolist() == [3e-08, -4.67691765, -1e-08]


def test_aselmdb_and_compressed_extxyz_of_the_same_systems_agree(real_data):
    database, source = read_frames(real_data / "oc20/derived_s2ef.aselmdb")
    text, _ = read_frames(real_data / "oc20/derived_s2ef_raw/train/0.extxyz.xz", limit=60)
    assert (source.format, len(database)) == ("ASE-LMDB", 60)
    assert database[0].energy == pytest.approx(-403.96588733)
    for left, right in zip(database, text, strict=True):
        assert left.energy == pytest.approx(right.energy)
        np.testing.assert_allclose(left.forces, right.forces, atol=1e-8)
        np.testing.assert_array_equal(left.structure.numbers, right.structure.numbers)
    assert any("'ref_energy'" in warning for warning in source.warnings)


def test_forces_on_fixed_atoms_are_kept(real_data):
    path = real_data / "oc20/dft_traj/random1000156.traj"
    frames, _ = read_frames(path)
    atoms = ase.io.read(path, 0)
    assert not atoms.get_forces()[0].any()
    np.testing.assert_array_equal(frames[0].forces, atoms.get_forces(apply_constraint=False))
    np.testing.assert_allclose(np.abs(frames[0].forces[0]), [0.0629765, 0.13490699, 0.01146634])
    assert (len(frames), frames[-1].energy) == (36, pytest.approx(-67.47374173))


def test_schnetpack_database_states_its_units(real_data):
    path = real_data / "qm9/schnetpack/test_qm9.db"
    frames, source = read_frames(path, keys=LabelKeys(energy="energy_U0"))
    assert source.units["energy"] == "Hartree"
    assert frames[0].energy == pytest.approx(-40.47893 * Hartree)
    unnamed, source = read_frames(path)  # the Gibbs free energy must not be taken for an energy
    assert unnamed[0].energy is None
    assert "energy_U0" in source.warnings[0]
    polar, source = read_frames(path, keys=LabelKeys(energy="isotropic_polarizability"))
    assert (polar[0].energy, source.units["energy"]) == (pytest.approx(13.21), "1")


def test_pickles_are_refused(real_data):
    with pytest.raises(DataError, match="could run code when opened"):
        read_frames(real_data / "oc20/derived_oc20_ref_165k.pkl")


def water(**info) -> Atoms:
    atoms = molecule("H2O")
    atoms.info.update(info)
    return atoms


def test_given_and_found_keys(tmp_path):
    atoms = water(Energy=-1.0, REF_energy=-2.0)
    atoms.arrays["dft_force"] = np.arange(9.0).reshape(3, 3)
    path = tmp_path / "a.xyz"
    ase.io.write(path, atoms)
    frames, source = read_frames(path)
    assert (frames[0].energy, source.keys["forces"]) == (-1.0, "dft_force")
    assert frames[0].forces[2, 1] == 7
    assert "read from 'Energy' (1 structures), but there is also 'REF_energy'" in source.warnings[0]
    frames, source = read_frames(path, keys=LabelKeys(energy="REF_energy"))
    assert (frames[0].energy, source.warnings) == (-2.0, ())
    with pytest.raises(
        DataError, match=r"no key 'REF_energie' for the energy \(did you mean 'REF_energy'\?\); its keys"
    ):
        read_frames(path, keys=LabelKeys(energy="REF_energie"))
    with pytest.raises(DataError, match=r"shape \(3, 3\) under 'dft_force', but a label for the energy is one number"):
        read_frames(path, keys=LabelKeys(energy="dft_force"))


def test_labels_in_part(tmp_path):
    labelled = water(energy=float("nan"))
    labelled.arrays["forces"] = np.array([[1.0, 2, 3], [np.nan] * 3, [4, 5, 6]])
    path = tmp_path / "a.extxyz"
    ase.io.write(path, [labelled, water()])
    frames, _ = read_frames(path)
    assert np.isnan(frames[0].energy)
    assert np.isnan(frames[0].forces[1]).all()
    assert frames[0].forces[2, 2] == 6
    assert frames[1].forces is None


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_compressed_plain_xyz_without_labels(tmp_path, suffix, compress):
    path = tmp_path / f"plain.xyz.{suffix}"
    path.write_bytes(compress(b"2\na comment, nothing more\nH 0 0 0\nO 0 0 0.97\n"))
    frames, source = read_frames(path)
    assert frames[0].structure.positions[1, 2] == 0.97
    assert frames[0].energy is None
    assert len(source.warnings) == 2


def test_voigt_order_and_a_stress_without_a_cell(tmp_path):
    crystal = bulk("Si")
    crystal.info["REF_stress"] = np.array([1.0, 2, 3, 4, 5, 6]) * 1e-3
    path = tmp_path / "a.xyz"
    ase.io.write(path, [crystal, water(REF_stress=np.ones(6))])
    frames, source = read_frames(path)
    np.testing.assert_allclose(frames[0].stress * 1e3, [[1, 6, 5], [6, 2, 4], [5, 4, 3]])
    assert frames[1].stress is None
    assert any("of 1 structures without a periodic cell" in warning for warning in source.warnings)
    np.testing.assert_array_equal(symmetric_matrix([1, 2, 3, 4, 5, 6, 7, 8, 9])[0], [1, 3, 5])


def test_ase_database_keeps_forces_on_fixed_atoms(tmp_path):
    atoms = bulk("Cu", cubic=True)
    atoms.set_constraint(FixAtoms([0]))
    forces, stress = np.arange(12.0).reshape(4, 3) + 1, np.arange(6) * 1e-3
    atoms.calc = SinglePointCalculator(atoms, energy=-3.0, forces=forces, stress=stress)
    with connect(tmp_path / "cu.db") as database:
        database.write(atoms)
    frames, source = read_frames(tmp_path / "cu.db")
    assert (source.format, frames[0].energy) == ("ASE database", -3.0)
    np.testing.assert_array_equal(frames[0].forces, forces)
    assert frames[0].stress[0, 1] == 5e-3


def test_broken_structures_are_named(tmp_path):
    path = tmp_path / "bad.xyz"
    path.write_text("1\n\nH 0 0 0\n1\n\nO 0 nan 0\n")
    with pytest.raises(StructureError, match=r"bad\.xyz, frame 1 has a position that is not a finite number"):
        read_frames(path)
    path.write_text("1\n\nX 0 0 0\n")
    with pytest.raises(StructureError, match=r"bad\.xyz, frame 0 has an atom without a chemical element"):
        read_frames(path)
    path.write_text("1\n\nH 0 0 0\n3\n\nO 0 0 0\n")
    with pytest.raises(DataError, match=r"bad\.xyz cannot be read as extended XYZ"):
        read_frames(path)


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "empty.xyz").write_text("\n")
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "half.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "objects.pkl").write_bytes(pickle.dumps({"a": 1}))
    for name, message in {
        "empty.xyz": "is empty",
        "notes.txt": "in no format that is known here; write it in one of these formats: extended XYZ",
        "half.npz": "half.npz cannot be read",
        "other.json": "not a list of entries with 'structure'",
        "objects.pkl": "a Python pickle, which could run code",
        "emtpy.xyz": r"does not exist \(did you mean 'empty.xyz'\?\)",
        "*.traj": "no file matches the pattern",
    }.items():
        with pytest.raises(DataError, match=message) as caught:
            read_frames(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="limit=0 reads nothing"):
        read_frames(tmp_path / "notes.txt", limit=0)


def test_folders_and_patterns_are_read_in_natural_order(tmp_path):
    for number in (10, 2):
        ase.io.write(
            tmp_path / f"part_{number}.xyz", [water(energy=number), water(energy=number + 0.5)], format="extxyz"
        )
    (tmp_path / "log.txt").write_text("ignored\n")
    for path in (tmp_path, tmp_path / "part_*.xyz"):
        frames, source = read_frames(path)
        assert [frame.energy for frame in frames] == [2, 2.5, 10, 10.5]
        assert source.format == "extxyz"
    frames, _ = read_frames(tmp_path, limit=3)
    assert frames[-1].structure.name == "part_10.xyz, frame 0"
