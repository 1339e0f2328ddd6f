import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.calculators.fd import calculate_numerical_forces
from ase.io import read, write

import cliffordstf
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.generate.sampling import generate_frames
from cliffordstf.generate.settings import GenerateSettings
from cliffordstf.generate.sources import start_structures
from cliffordstf.generate.unique import SeenFrames, fingerprint
from cliffordstf.generate.write import write_frames
from cliffordstf.generate.xtb import make_xtb

QUICK = {"equilibration": 10.0, "interval": 5.0}


@pytest.fixture(autouse=True)
def tblite() -> None:
    pytest.importorskip("tblite")


def test_frames_are_labelled_where_they_are_written(tmp_path):
    frames = generate_frames([molecule("CH3CH2OH")], GenerateSettings(frames=3, temperatures=(500.0,), seed=1, **QUICK))
    write_frames(tmp_path / "data.extxyz.xz", frames)
    last = read(tmp_path / "data.extxyz.xz", ":")[-1]
    assert np.array_equal(last.positions, np.round(last.positions, 5))
    check = last.copy()
    check.calc = make_xtb(accuracy=0.01, reuse=False)
    assert check.get_potential_energy() == pytest.approx(last.get_potential_energy(), abs=1e-7)
    np.testing.assert_allclose(check.get_forces(), last.get_forces(), atol=1.1e-5)
    np.testing.assert_allclose(calculate_numerical_forces(check, eps=5e-4), last.get_forces(), atol=1e-4)
    assert last.info["method"] == "GFN2-xTB"
    assert last.info["temperature_K"] == 500
    assert last.info["seed"] == 1
    assert last.info["cliffordstf"] == cliffordstf.__version__
    assert last.info["tblite"]
    assert "momenta" not in last.arrays
    np.testing.assert_allclose(last.get_center_of_mass(), 0, atol=1e-5)


def test_the_seed_decides_everything():
    def run(seed: int) -> list[np.ndarray]:
        settings = GenerateSettings(frames=4, temperatures=(300.0, 600.0), seed=seed, **QUICK)
        return [frame.positions for frame in generate_frames([molecule("H2O")], settings)]

    first, same, other = run(0), run(0), run(1)
    assert np.array_equal(first, same)
    assert not np.allclose(first, other)
    assert not np.allclose(first[0], first[2])


def test_frames_are_shared_out_between_structures_and_temperatures():
    counts: list[int] = []
    settings = GenerateSettings(frames=5, temperatures=(300.0, 400.0), **QUICK)
    frames = generate_frames([molecule("H2O"), molecule("NH3")], settings, counts.append)
    kinds = [(frame.get_chemical_formula(), frame.info["temperature_K"]) for frame in frames]
    assert kinds == [("H2O", 300), ("H2O", 300), ("H2O", 400), ("H3N", 300), ("H3N", 400)]
    assert counts == [1, 2, 3, 4, 5]


def test_rattling_displaces_by_sigma():
    start = molecule("CH3CH2OH")
    frames = generate_frames([start], GenerateSettings(frames=20, rattle=0.03, seed=4))
    moves = np.array([frame.positions - start.positions for frame in frames])
    assert moves.std() == pytest.approx(0.03, rel=0.1)
    assert frames[0].info["rattle_A"] == 0.03
    assert "temperature_K" not in frames[0].info


def test_isolated_atoms_come_first_and_bind():
    frames = generate_frames([molecule("H2O")], GenerateSettings(frames=1, isolated_atoms=True, rattle=0.01))
    assert [frame.get_chemical_formula() for frame in frames] == ["H", "O", "H2O"]
    assert [frame.info.get("config_type") for frame in frames] == ["IsolatedAtom", "IsolatedAtom", None]
    hydrogen, oxygen, water = (frame.get_potential_energy() for frame in frames)
    assert -16 < water - oxygen - 2 * hydrogen < -8  # eV; experiment: -10.1


def test_duplicates_are_left_out():
    atoms = molecule("CH3CH2OH")
    seen = SeenFrames(0.01)
    assert seen.add_if_new(atoms)
    turned = atoms.copy()
    turned.rotate(40, "xyz")
    turned.translate([1, 2, 3])
    order = np.random.default_rng(0).permutation(len(atoms))
    assert not seen.add_if_new(turned[order])
    moved = atoms.copy()
    moved.rattle(0.1, seed=0)
    assert seen.add_if_new(moved)
    assert seen.add_if_new(molecule("CH3OCH3"))
    np.testing.assert_allclose(fingerprint(turned), fingerprint(atoms), atol=1e-12)
    crystal = bulk("Si", cubic=True)
    shifted = crystal.copy()
    shifted.positions += 2.0
    shifted.wrap()
    np.testing.assert_allclose(fingerprint(shifted), fingerprint(crystal), atol=1e-9)
    assert SeenFrames(0.01).add_if_new(molecule("H2O")[:1])


def test_nothing_but_duplicates_is_an_error():
    with pytest.raises(DataError, match="only 1 of 3 frames differ by more than the tolerance after 60 tries"):
        generate_frames([molecule("H2O")], GenerateSettings(frames=3, rattle=0.001, tolerance=0.1))


def test_starts_come_from_files_or_names(tmp_path):
    write(tmp_path / "two.extxyz", [molecule("H2O"), molecule("NH3")])
    assert [atoms.get_chemical_formula() for atoms in start_structures(str(tmp_path / "two.extxyz"))] == ["H2O", "H3N"]
    assert len(start_structures("CH3CH2OH")[0]) == 9
    with pytest.raises(DataError, match="neither a structure file nor a molecule"):
        start_structures("unobtainium")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperatures": ()}, "must be one or more numbers above zero"),
        ({"frames": 0}, "frames=0 must be above zero"),
        ({"rattle": -1.0}, "rattle=-1.0 must be a length"),
        ({"interval": 0.1}, "shorter than the timestep"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ConfigError, match=message):
        GenerateSettings(**changes)
