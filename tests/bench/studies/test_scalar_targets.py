import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from cliffordstf.bench.jobs.sweep import read_results
from cliffordstf.bench.studies.scalar_targets import NOTHING, QM9, scalar_job, scalar_tables
from cliffordstf.cli.main import app
from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.qm9 import TARGETS
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.model.file import load_model, save_model
from cliffordstf.train.setup import load_splits, prepare

SMALL = ["--recipe", "tiny", "model.preset=default/small", "model.channels=4", "epochs=3"]


@pytest.fixture
def molecules(tmp_path):
    """Raw files of QM9: water molecules whose gap and energy depend on one bond."""
    folder = tmp_path / "qm9"
    folder.mkdir()
    for index, bond in enumerate(np.linspace(0.85, 1.15, 40), start=1):
        targets = dict.fromkeys(TARGETS, 0.0) | {"homo": 0.2 * bond, "U0": -76.0 + (bond - 1) ** 2, "mu": 1.8}
        values = "\t".join(repr(float(targets[name])) for name in TARGETS)
        atoms = ["O\t0.\t0.\t0.\t0.", f"H\t{bond:.4f}\t0.\t0.\t0.", "H\t-0.24\t0.93\t0.\t0."]
        text = "\n".join(["3", f"gdb {index}\t{values}\t", *atoms, "1000.", "O\tO\t", "InChI=1S/H2O\tInChI=1S/H2O"])
        (folder / f"dsgdb9nsd_{index:06d}.xyz").write_text(text + "\n")
    return folder


def run(tmp_path, name, data, *more):
    folders = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    result = CliRunner().invoke(app, ["bench", name, "--data", str(data), *folders, *more, *SMALL])
    assert result.exit_code == 0, result.output
    return read_results(tmp_path / "results")


def test_every_target_has_its_pooling_and_its_unit(molecules, tmp_path):
    results = run(tmp_path, "qm9", molecules, "--targets", "U0,homo", "--exclude", "none")
    homo, energy = sorted(results, key=lambda result: result["target"], reverse=True)
    assert homo["config"]["model"]["pooling"] == "mean"
    assert energy["config"]["model"]["pooling"] == "sum"
    assert homo["metrics"]["n_structures"] == 4
    (table,) = scalar_tables(results, "qm9")
    assert table.heads[:4] == ["model", "parameters", "budget", "passes"]
    assert table.heads[4:7] == ["U0, meV", "U0, paper", "U0, published"]
    assert table.heads[7:] == ["homo, meV", "homo, paper", "homo, published"]
    assert table.rows[0][3] == "3 of 3"
    assert float(table.rows[0][4]) == pytest.approx(energy["metrics"]["energy_mae_mev"], abs=1e-3)
    assert table.rows[-1][0] == "baseline"
    # The paper prints 8.045 eV and 0.033 eV.
    (paper,) = scalar_tables([{**result, "model": "gotennet"} for result in results], "qm9")
    assert [paper.rows[0][5], paper.rows[0][8]] == ["8045", "33"]
    (published,) = scalar_tables([{**result, "model": "torchmd-et-qm9"} for result in results], "qm9")
    assert [published.rows[0][6], published.rows[0][9]] == ["6.2", "20.3"]


def test_other_references_have_another_baseline(molecules, tmp_path):
    run(tmp_path, "qm9", molecules, "--exclude", "none")
    results = run(tmp_path, "qm9", molecules, "--exclude", "none", "--seeds", "1", "data.reference=mean")
    tables = scalar_tables(results, "qm9")
    assert [len(table.rows) for table in tables] == [2, 2]
    assert ["references mean" in table.title for table in tables] == [False, True]


def test_a_folder_of_the_same_name_is_other_data(molecules, tmp_path):
    run(tmp_path, "qm9", molecules, "--exclude", "none")
    other = tmp_path / "elsewhere" / molecules.name
    shutil.copytree(molecules, other)
    run(tmp_path, "qm9", other, "--exclude", "none")  # the same files: done before
    (other / "dsgdb9nsd_000001.xyz").unlink()
    with pytest.raises(AssertionError, match="is the result of other options"):
        run(tmp_path, "qm9", other, "--exclude", "none")


def test_excluded_molecules_stay_out(molecules, tmp_path):
    with pytest.raises(ConfigError, match=r"the 3054 molecules that failed QM9's own check would stay in; give"):
        scalar_job("qm9", str(molecules), "mu")
    assert scalar_job("qm9", "qm9pack:", "mu").config.data.exclude is None  # comes without them
    ids = tmp_path / "uncharacterized.txt"
    ids.write_text("3\n7\n11\n")
    # It is found beside the data too, where `data fetch` puts it.
    assert scalar_job("qm9", str(molecules), "mu").config.data.exclude == str(ids)
    setup = prepare(scalar_job("qm9", str(molecules), "mu", exclude=ids).config)
    every = [*setup.splits.train, *setup.splits.valid, *setup.splits.test]
    assert len(every) == 37
    assert not {3, 7, 11} & {frame.id for frame in every}


def test_the_paper_normalises_and_squares(molecules):
    config = scalar_job("qm9", "qm9pack:", "alpha", protocol="paper").config
    assert (config.loss.energy.kind, config.batch_size, config.optimizer.name) == ("mse", 128, "adam")
    assert (config.data.reference, config.data.scale, config.optimizer.clip) == ("mean", "energy", 10)
    gap = scalar_job("molecule3d", str(molecules), "gap", protocol="paper").config
    assert (gap.loss.energy.kind, gap.schedule.kind) == ("l1", "exponential")
    assert gap.schedule.final == pytest.approx(0.8**10, rel=0.01)


@pytest.mark.parametrize("target", ["homo", "U0"])
def test_the_papers_targets_are_z_scores(molecules, tmp_path, target):
    setup = prepare(scalar_job("qm9", str(molecules), target, protocol="paper", exclude=NOTHING).config)
    labels = np.array([frame.energy for frame in setup.splits.train])
    reference = setup.potential.reference
    assert not reference.energies.any()
    assert float(reference.constant) == pytest.approx(labels.mean())
    assert float(reference.scale) == pytest.approx(labels.std(), rel=1e-6)
    baseline = setup.baseline(setup.test.frames)
    assert baseline == pytest.approx(np.full(len(setup.test), labels.mean()))
    loaded, _ = load_model(save_model(setup.potential, tmp_path / "m.safetensors"))
    structure = setup.splits.test[0].structure
    assert float(loaded.predict(structure).energy) == pytest.approx(float(setup.potential.predict(structure).energy))


def test_the_database_of_schnetpack_has_the_same_targets(real_data):
    file = real_data / "qm9" / "schnetpack" / "test_qm9.db"
    for target in QM9:
        job = scalar_job("qm9", str(file), target, exclude=NOTHING)
        splits = load_splits(job.config.data)
        assert len(splits.train) + len(splits.valid) + len(splits.test) == 20
    methane = next(
        frame
        for frame in read_frames(str(file), keys=LabelKeys(energy="energy_U0"))[0]
        if sorted(frame.structure.numbers) == [1, 1, 1, 1, 6]
    )
    assert methane.energy == pytest.approx(-40.47893 * 27.2114, abs=0.01)


def test_an_unknown_target_is_named():
    with pytest.raises(ConfigError, match="did you mean 'homo'"):
        scalar_job("qm9", "qm9pack:", "homos")
    with pytest.raises(DataError, match="raw does not exist"):
        scalar_job("molecule3d", "raw", "gap")
    assert list(QM9) == ["Cv", "U0", "alpha", "homo", "lumo", "mu"]


def test_molecule3d_end_to_end_on_its_layout(real_data, tmp_path):
    data = real_data / "molecule3d" / "layout_fixture_from_qm9" / "data" / "raw"
    (result,) = run(tmp_path, "molecule3d", data)
    assert result["metrics"]["energy_mae_mev"] > 0
    (table,) = scalar_tables([result], "molecule3d")
    assert table.heads[4:] == ["gap, eV", "gap, paper", "gap, published"]
