"""How the options of `data` divide and prepare what is read."""

import ase.io
import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

from cliffordstf.errors import ConfigError, DataError
from cliffordstf.train.config import load_config
from cliffordstf.train.setup import load_splits, prepare
from tests.data.readers.test_qm9 import raw


@pytest.fixture
def slabs(tmp_path):
    images = []
    for seed in range(6):
        atoms = bulk("Cu", cubic=True)
        atoms.rattle(0.05, seed=seed)
        atoms.set_constraint(FixAtoms([0]))
        atoms.calc = SinglePointCalculator(atoms, energy=-float(seed), forces=np.ones((4, 3)))
        images.append(atoms)
    ase.io.write(tmp_path / "slabs.traj", images)
    return tmp_path / "slabs.traj"


def splits(*options):
    return load_splits(load_config(None, list(options)).data)


def test_only_free_atoms_count(slabs):
    options = [f"data.train={slabs}", "data.valid=1", f"data.test={slabs}"]
    found = splits(*options, "data.free_atoms_only=true")
    for frame in (*found.train, *found.valid, *found.test):
        assert np.isnan(frame.forces[0]).all()
        assert np.isfinite(frame.forces[1:]).all()
    assert np.isfinite(splits(*options).train[0].forces).all()


def test_free_atoms_of_data_that_do_not_say(clusters):
    with pytest.raises(ConfigError, match="needs to know which atoms are fixed"):
        splits(f"data.train={clusters}", "data.free_atoms_only=true")


def test_official_splits_by_name(slabs, tmp_path):
    (tmp_path / "parts.json").write_text('{"train": [5, 0], "valid": [1], "test": [3, 2]}')
    names = [f"data.{name}_indices={tmp_path}/parts.json:{name}" for name in ("train", "valid", "test")]
    found = splits(f"data.train={slabs}", *names)
    assert sorted(frame.energy for frame in found.train) == [-5, 0]
    assert [frame.energy for frame in found.valid] == [-1]
    assert [frame.energy for frame in found.test] == [-3, -2]
    rest = splits(f"data.train={slabs}", *names[1:])
    assert sorted(frame.energy for frame in rest.train) == [-5, -4, 0]
    with pytest.raises(ConfigError, match=r"data\.test=.* and data\.test_indices are both given"):
        splits(f"data.train={slabs}", names[2], f"data.test={slabs}")


def test_the_scale_may_be_the_spread_of_the_energies(slabs):
    """Six energies from 0 to -5 of the same composition, all forces 1: what is left of them spreads by sqrt(35/12)."""
    options = [f"data.train={slabs}", "data.valid=0", "model.preset=default/small", "model.channels=4"]
    scales = {
        asked: float(prepare(load_config(None, [*options, f"data.scale={asked}"])).potential.reference.scale)
        for asked in ("auto", "energy", "2.5")
    }
    assert scales == pytest.approx({"auto": 1.0, "energy": (35 / 12) ** 0.5, "2.5": 2.5})


def test_one_structure_with_huge_forces_does_not_set_the_scale(slabs):
    images = ase.io.read(slabs, ":")
    huge = np.ones((4, 3))
    huge[-1] = 1e4
    images[0].calc = SinglePointCalculator(images[0], energy=0.0, forces=huge)
    ase.io.write(slabs, [images[0], *images[1:] * 30])
    options = [f"data.train={slabs}", "data.valid=0", "model.preset=default/small", "model.channels=4"]
    assert float(prepare(load_config(None, options)).potential.reference.scale) == pytest.approx(1.0)


def test_structures_are_left_out_by_id(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for index in range(1, 7):
        raw(folder, index, x=str(index / 10))
    (tmp_path / "bad.txt").write_text("2\n5\n99\n")
    found = splits(f"data.train={folder}", f"data.exclude={tmp_path}/bad.txt", "data.valid=1")
    assert sorted(frame.id for frame in (*found.train, *found.valid)) == [1, 3, 4, 6]
    assert any(warning.startswith("2 of 6 structures") for warning in found.warnings)


def test_references_from_a_file(slabs, tmp_path):
    values = np.zeros(100)
    values[29] = -0.5
    np.savez(tmp_path / "lin.npz", coeff=values)
    options = [f"data.train={slabs}", "model.preset=default/small", "model.channels=4", "model.hidden=4"]
    config = load_config(None, [*options, f"data.reference={tmp_path}/lin.npz"])
    assert prepare(config).references.energies == {29: -0.5}
    np.savez(tmp_path / "lin.npz", coeff=values * 1e6)
    with pytest.raises(DataError, match="no reference energy for Cu"):
        prepare(config)


@pytest.mark.parametrize(
    ("count", "apart", "options", "cutoff", "layers", "batch"),
    [
        (4, 0.0, [], 4.0, 3, 1),
        (4, 0.0, ["model.cutoff=5.5"], 5.5, 3, 1),
        (4, 0.0, ["model.layers=2", "batch_size=3"], 4.0, 2, 3),
        (4, 0.0, ["model.preset=default/small"], 4.0, 2, 1),
        (4, 0.0, ["model.preset=paper/clifford"], 6.0, None, 1),
        (4, 5.0, [], 5.0, 2, 2),  # two molecules: their interaction must be seen
        (220, 0.0, [], 5.0, 2, 17),
    ],
)
def test_few_frames_of_one_small_molecule(tmp_path, count, apart, options, cutoff, layers, batch):
    """A short cutoff and, for at most twelve atoms, a third layer and single structures a step."""
    images = []
    for seed in range(count):
        atoms = molecule("CH3OH")
        if apart:
            other = molecule("CH3OH")
            other.translate([apart, 0, 0])
            atoms += other
        atoms.rattle(0.02, seed=seed)
        atoms.calc = SinglePointCalculator(atoms, energy=float(seed), forces=np.ones((len(atoms), 3)))
        images.append(atoms)
    ase.io.write(tmp_path / "frames.extxyz", images)
    config = load_config(None, [f"data.train={tmp_path / 'frames.extxyz'}", "data.valid=1", *options])
    setup = prepare(config)
    assert setup.potential.cutoff == cutoff
    assert setup.plan.size == batch
    if layers is not None:
        assert setup.potential.model.config.layers == layers


@pytest.mark.parametrize(
    ("with_forces", "options", "batch"),
    [(True, [], 17), (False, [], 32), (True, ["loss.forces.weight=0"], 32), (False, ["batch_size=4"], 4)],
)
def test_energies_alone_are_learned_from_more_structures_a_step(tmp_path, with_forces, options, batch):
    images = []
    for seed in range(220):
        atoms = molecule("CH3OH")
        atoms.rattle(0.02, seed=seed)
        forces = {"forces": np.ones((len(atoms), 3))} if with_forces else {}
        atoms.calc = SinglePointCalculator(atoms, energy=float(seed), **forces)
        images.append(atoms)
    ase.io.write(tmp_path / "frames.extxyz", images)
    small = ["model.preset=default/small", "model.channels=4", "model.hidden=4"]
    config = load_config(None, [f"data.train={tmp_path / 'frames.extxyz'}", "data.valid=1", *small, *options])
    assert prepare(config).plan.size == batch


@pytest.mark.parametrize("preset", ["default/small", "paper/full"])
def test_energies_are_right_on_average_before_the_first_step(slabs, preset):
    """With isolated-atom energies that were not fitted, the energy of all bonds is left: here -1000.6 eV per atom."""
    options = [f"data.train={slabs}", "data.valid=0", f"model.preset={preset}", "model.channels=4", "model.hidden=4"]
    setup = prepare(load_config(None, [*options, "data.reference={Cu: 1000.0}", "precision=float64"]))
    labels = np.array([frame.energy for frame in setup.splits.train])
    found = setup.potential.predict([frame.structure for frame in setup.splits.train]).energy.detach().numpy()
    assert abs(np.median(found - labels)) < 3


def test_weights_multiply_and_reach_the_loss(clusters, tmp_path):
    images = ase.io.read(clusters, ":")
    images[0].info["config_weight"] = 3.0
    images[1].info.update(config_energy_weight=0.0, config_forces_weight=2.0, config_type="special")
    images[2].info["config_weight"] = -1.0
    ase.io.write(tmp_path / "w.extxyz", images)
    with pytest.raises(DataError, match=r"frame 2 has config_weight=-1.0, but a weight is a number that is not neg"):
        splits(f"data.train={tmp_path}/w.extxyz")
    del images[2].info["config_weight"]
    ase.io.write(tmp_path / "w.extxyz", images)
    found = splits(
        f"data.train={tmp_path}/w.extxyz", "data.valid=0", "data.config_type_weights={special: 5, Default: 2}"
    )
    weights = {frame.structure.name.rpartition(" ")[2]: frame.weights for frame in found.train}
    assert weights["0"] == (6.0, 6.0, 6.0)
    assert weights["1"] == (0.0, 10.0, 5.0)
    assert weights["3"] == (2.0, 2.0, 2.0)


def test_only_isolated_atoms_leave_nothing_to_learn(tmp_path):
    atoms = [ase.Atoms("H"), ase.Atoms("O")]
    for index, atom in enumerate(atoms):
        atom.calc = SinglePointCalculator(atom, energy=-float(index))
    ase.io.write(tmp_path / "atoms.extxyz", atoms)
    with pytest.raises(DataError, match="holds isolated atoms only, so there is nothing to learn"):
        splits(f"data.train={tmp_path}/atoms.extxyz")
