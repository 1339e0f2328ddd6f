import numpy as np
import pytest
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.constraints import FixAtoms
from ase.io import read, write
from typer.testing import CliRunner

from cliffordstf.bench.jobs.sweep import read_results
from cliffordstf.bench.studies.catalysis import catalysis_job, catalysis_tables
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.train.setup import load_splits

SMALL = ["model.preset=default/small", "model.channels=4", "epochs=2"]


@pytest.fixture
def slabs(tmp_path):
    """Periodic layers of argon with an adsorbed atom; the lower layer is fixed. A file for each system."""
    folders = {}
    for name, seed in (("train", 0), ("val_id", 1)):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        for number in range(10):
            atoms = Atoms("Ar4Ne", [[0, 0, 0], [2.2, 0, 0], [0, 2.2, 2], [2.2, 2.2, 2], [1, 1, 4]], cell=[4.4, 4.4, 20])
            atoms.pbc = True
            atoms.rattle(0.1, seed=100 * seed + number)
            atoms.calc = LennardJones(sigma=2.2, epsilon=0.1, rc=5.0)
            atoms.get_forces()
            atoms.set_constraint(FixAtoms([0, 1]))
            write(folders[name] / f"random{number}.traj", [atoms])
    return folders


def run(tmp_path, slabs, *more):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    splits = ["--energy", "total", "--train", str(slabs["train"]), "--test", f"val_id={slabs['val_id']}"]
    result = CliRunner().invoke(app, ["bench", "oc20", *splits, *folders, *more, *SMALL])
    assert result.exit_code == 0, result.output
    return read_results(tmp_path / "results")


def test_forces_on_free_atoms_are_learned_and_measured(slabs, tmp_path):
    (result,) = run(tmp_path, slabs, "--recipe", "tiny")
    assert result["config"]["data"]["free_atoms_only"]
    assert result["tests"]["val_id"]["force_mae_mev_per_a"] > 0
    assert result["tests"]["val_id"]["baseline_energy_mae_mev"] > 1
    assert result["tests"]["val_id"]["energy_and_forces_within_threshold"] is not None  # fixed atoms do not count
    job = catalysis_job("oc20", "s2ef", slabs["train"], {"val_id": slabs["val_id"]}, energy="total")
    splits = load_splits(job.config.data)
    assert np.isfinite(splits.train[0].forces).all(axis=1).tolist() == [False, False, True, True, True]
    (table,) = catalysis_tables([result], "oc20", "s2ef")
    assert table.heads[:4] == ["model", "parameters", "budget", "passes"]
    assert table.heads[4:] == ["val_id (10 structures)", "val_id, paper", "val_id, published"]
    assert table.rows[-1][4].endswith("(0)")
    # The paper's are adsorption energies.
    theirs = {**result, "model": "paper/full", "energy": "adsorption"}
    adsorption, total = catalysis_tables([{**result, "model": "paper/full"}, theirs], "oc20", "s2ef")
    assert (total.rows[0][5], adsorption.rows[0][5]) == ("", "2.115 / 0.06 (0.138)")
    assert "adsorption energies" in adsorption.title
    (published,) = catalysis_tables([{**theirs, "model": "schnet"}], "oc20", "s2ef")
    assert published.rows[0][6] == "- / 0.0743 (-)"


def test_adsorption_energies_are_asked_for_by_what_files_hold(slabs, tmp_path, real_data):
    def data(train, **options):
        return catalysis_job("oc20", "s2ef", train, {"val": 0.1}, **options).config.data

    with pytest.raises(ConfigError, match="holds total energies; give those of the systems"):
        data(slabs["train"])
    file = tmp_path / "ref.pkl"
    assert data(slabs["train"], system_reference=file).system_reference == str(file)
    assert data(real_data / "oc20/derived_s2ef_raw/train").keys.energy == "adsorption_energy"
    lmdb = data(real_data / "oc20/tutorial_lmdb/s2ef/val_20")
    assert (lmdb.keys.energy, lmdb.system_reference) == (None, None)
    assert lmdb.reference == "mean", "an energy for every element would fit twenty adsorption energies without error"
    assert data(slabs["train"], energy="total").reference == "auto"
    energies = [
        np.mean([frame.energy for frame in load_splits(found).train])
        for found in (data(real_data / "oc20/derived_s2ef_raw/train"), lmdb)
    ]
    assert np.abs(energies).max() < 20  # total energies are hundreds of eV


def test_files_with_different_energies_are_not_mixed(slabs, real_data):
    lmdb, shards = real_data / "oc20/tutorial_lmdb/s2ef/val_20", real_data / "oc20/derived_s2ef_raw/train"
    with pytest.raises(ConfigError, match=r"val_20 \(LMDB files\) and train \(raw shards\) do not hold the same kind"):
        catalysis_job("oc20", "s2ef", lmdb, {"val_id": shards})
    with pytest.raises(ConfigError, match=r"\(total energies\) and val_20 \(LMDB files\)"):
        catalysis_job("oc20", "s2ef", slabs["train"], {}, valid=lmdb, energy="total")
    catalysis_job("oc20", "s2ef", slabs["train"], {"val_id": shards}, energy="total")


def test_energies_of_an_unknown_kind_are_not_taken_for_adsorption_energies(real_data, tmp_path):
    shard = tmp_path / "0.extxyz.xz"  # without its text file
    shard.write_bytes((real_data / "oc20/derived_s2ef_raw/train/0.extxyz.xz").read_bytes())
    with pytest.raises(ConfigError, match=r"0\.extxyz\.xz does not say whether its energies are adsorption energies"):
        catalysis_job("oc20", "s2ef", shard, {"val": 0.1})
    for energy in ("total", "adsorption"):
        catalysis_job("oc20", "s2ef", shard, {"val": 0.1}, energy=energy)


def test_patterns_of_every_kind_are_taken(slabs):
    for pattern in ("random[0-4].traj", "random?.traj"):
        catalysis_job("oc20", "s2ef", slabs["train"] / pattern, {"val": 0.1}, energy="total")


def test_relaxed_energies_are_not_made_of_single_frames(real_data):
    for frames in ("oc20/tutorial_lmdb/s2ef/val_20", "oc20/derived_s2ef_raw/train"):
        with pytest.raises(ConfigError, match="holds single frames, not relaxed energies"):
            catalysis_job("oc20", "is2re", real_data / frames, {})


def test_relaxed_energies_belong_to_the_first_structures(real_data):
    train = real_data / "oc20/dft_traj"
    splits = load_splits(catalysis_job("oc20", "is2re", train, {"val": 0.4}, energy="total").config.data)
    frames = sorted([*splits.train, *splits.valid, *splits.test], key=lambda frame: frame.id)
    assert len(frames) == 6
    for frame, path in zip(frames, sorted(train.glob("*.traj")), strict=True):
        first, last = read(path, 0), read(path, -1)
        np.testing.assert_allclose(frame.structure.positions, first.positions)
        assert frame.energy == pytest.approx(last.calc.results["energy"])
        assert frame.forces is None


def test_periodic_images_can_be_left_out(slabs, tmp_path):
    run(tmp_path, slabs, "--recipe", "periodic", "--task", "is2re")
    run(tmp_path, slabs, "--recipe", "no images", "--task", "is2re", "data.ignore_cells=true")
    alone, periodic = sorted(read_results(tmp_path / "results"), key=lambda result: result["recipe"])
    assert alone["config"]["data"]["ignore_cells"]
    errors = [result["tests"]["val_id"]["energy_mae_mev"] for result in (alone, periodic)]
    assert errors[0] != errors[1]
    (table,) = catalysis_tables([alone, periodic], "oc20", "is2re")
    assert len(table.rows) == 3


def test_the_result_of_other_splits_is_not_taken_for_this_one(slabs, tmp_path):
    run(tmp_path, slabs, "--recipe", "tiny", "--task", "is2re")
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    splits = ["--energy", "total", "--train", str(slabs["train"]), "--test", f"val_ood={slabs['val_id']}"]
    splits += ["--task", "is2re"]
    result = CliRunner().invoke(app, ["bench", "oc20", *splits, *folders, "--recipe", "tiny", *SMALL])
    assert result.exit_code != 0
    assert "is the result of other options" in str(result.exception)


def test_a_share_of_the_training_data_can_be_held_out(slabs, tmp_path):
    (result,) = run(tmp_path, slabs, "--recipe", "tiny", "--task", "is2re", "--test", "others=0.3")
    assert list(result["tests"]) == ["others", "val_id"]
    assert result["tests"]["others"]["n_structures"] == 3
    (table,) = catalysis_tables([result], "oc20", "is2re")
    assert table.heads[4:8:3] == ["others (3 structures)", "val_id (10 structures)"]
    with pytest.raises(ConfigError, match="only one test set can be a share"):
        catalysis_job("oc20", "is2re", slabs["train"], {"a": 0.1, "b": 0.2})


def test_elements_of_the_test_sets_are_known_before_training(slabs, tmp_path):
    """A whole run would be lost if they were missed only when it is over."""
    other = Atoms(
        "Ar4Kr", [[0, 0, 0], [2.2, 0, 0], [0, 2.2, 2], [2.2, 2.2, 2], [1, 1, 4]], cell=[4.4, 4.4, 20], pbc=True
    )
    other.calc = LennardJones(sigma=2.2, epsilon=0.1, rc=5.0)
    other.get_forces()
    other.set_constraint(FixAtoms([0, 1]))
    write(slabs["val_id"] / "random10.traj", other)
    (result,) = run(tmp_path, slabs, "--recipe", "tiny")
    assert result["tests"]["val_id"]["force_mae_mev_per_a"] > 0
    assert result["tests"]["val_id"]["baseline_energy_mae_mev"] > 1
    # A second call finds the same run, not one with other options.
    assert run(tmp_path, slabs, "--recipe", "tiny") == [result]


def test_mistakes_are_named(slabs):
    with pytest.raises(ConfigError, match="did you mean 's2ef'"):
        catalysis_job("oc20", "s2ff", slabs["train"], {})
    with pytest.raises(DataError, match="does not exist"):
        catalysis_job("oc20", "s2ef", slabs["train"].with_name("none"), {})
    assert CliRunner().invoke(app, ["bench", "oc22", "--train", str(slabs["train"])]).exit_code != 0


def test_the_paper_protocols_differ_by_task(slabs):
    relaxed, forces = (
        catalysis_job("oc22", task, slabs["train"], {}, protocol="paper").config for task in ("is2re", "s2ef")
    )
    assert (relaxed.loss.energy.kind, relaxed.loss.energy_per, relaxed.epochs) == ("l1", "structure", 150)
    assert (forces.loss.forces.weight, forces.loss.energy_per, forces.epochs) == (3, "atom", 50)


LINEAR = "oc22/oc22_linfit_coeffs.npz"


@pytest.mark.parametrize(
    ("benchmark", "task", "train", "test", "reference"),
    [
        ("oc20", "s2ef", "oc20/tutorial_lmdb/s2ef/val_20", 0.3, None),
        ("oc20", "is2re", "oc20/tutorial_lmdb/is2re/val_20", 0.3, None),
        ("oc20", "s2ef", "oc20/derived_s2ef_raw/train", "oc20/derived_s2ef_raw/val", None),
        ("oc20", "s2ef", "oc20/derived_s2ef.aselmdb", 0.3, "oc20/oc20_linref.npz"),
        ("oc22", "s2ef", "oc22/derived_lmdb/s2ef-total/train", "oc22/derived_lmdb/s2ef-total/val_id", LINEAR),
        ("oc22", "s2ef", "oc22/oc22_pickle16_train.pkl", "oc22/oc22_pickle16_val.pkl", LINEAR),
    ],
)
def test_every_genuine_format_trains_and_tests(benchmark, task, train, test, reference, real_data, tmp_path):
    """Two updates: labels, masks, cells and references come through every reader."""
    small = ("model.channels=4", "model.cutoff=4", "batch_size=2", "steps=2", "epochs=null", "data.train_size=8")
    split = test if isinstance(test, float) else real_data / test
    job = catalysis_job(
        benchmark, task, real_data / train, {"val_id": split}, budget="null", model="default/small", overrides=small,
        label="tiny", reference=real_data / reference if reference else None, energy="total" if reference else None,
    )  # fmt: skip
    found = job.run(tmp_path / "run", None)["tests"]["val_id"]
    assert np.isfinite(found["energy_mae_mev"])
    assert found["baseline_energy_mae_mev"] < 1e5  # total energies without their reference are hundreds of eV
    assert (found["force_mae_mev_per_a"] is None) == (task == "is2re")
    if task == "s2ef":
        assert set(found["per_tag"]) <= {"0", "1", "2"}
        assert 10 < found["baseline_force_mae_mev_per_a"] < 1e3
