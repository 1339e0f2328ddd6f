"""What a chemist does first, with real files: several at once, units, references, labels, errors by set."""

import json
import re
from pathlib import Path

import ase.build
import ase.io
import numpy as np
import pytest
import yaml
from ase import units
from ase.calculators.singlepoint import SinglePointCalculator
from rich.console import Console
from safetensors import SafetensorError
from typer.testing import CliRunner

from cliffordstf.cli.main import app
from cliffordstf.cli.screen import Printer
from cliffordstf.errors import CliffordSTFError, ConfigError, DataError, FileWriteError
from cliffordstf.host.files import write_atomically
from cliffordstf.model.file import load_model, read_info
from cliffordstf.model.shipped import open_model

RUNNER = CliRunner()
TINY = ["model.preset=default/small", "model.channels=4", "epochs=1", "data.train_size=16", "data.valid=4"]
ELECTRONVOLTS_TO = {"Hartree": 1 / units.Hartree, "Hartree/bohr": units.Bohr / units.Hartree}


def run(*arguments, code: int = 0):
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    if code == 0:
        assert result.exit_code == 0, (result.output, result.exception)
    return result


def failure(*arguments) -> str:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, CliffordSTFError), (result.output, result.exception)
    return str(result.exception)


@pytest.fixture
def acac(real_data):
    return real_data / "acac"


def test_acetylacetone_with_references_both_training_files_and_all_tests_in_one_eval(acac, tmp_path):
    out = tmp_path / "run"
    output = run(
        "train", acac / "train_300K.xyz", acac / "train_600K.xyz", f"data.reference={acac}/isolated_atoms.xyz",
        "--out", out, *TINY,
    ).output  # fmt: skip
    assert "isolated-atom energies (given, eV): H -13.568, C -1026.854, O -2037.797" in output
    assert re.search(r"train by label: (300K_MD|600K_MD) \d+, (300K_MD|600K_MD) \d+", output)
    assert "Chosen automatically" in output
    assert "model.cutoff" in output  # 4 Å for few molecules does not come unannounced
    info = read_info(out / "model.safetensors")
    assert info.atomic_energies["H"] == pytest.approx(-13.568422178253735)
    tests = [acac / f"test_{name}.xyz" for name in ("MD_300K", "MD_600K", "dihedral", "H_transfer")]
    table = run("eval", out, *tests, "--limit", "12", "--json", tmp_path / "e.json").output
    for name in ("test_MD_300K", "test_MD_600K", "test_dihedral", "test_H_transfer"):
        assert re.search(rf"{name}\W+12", table), table
    sets = json.loads((tmp_path / "e.json").read_text())["sets"]
    assert set(sets) == {"test_MD_300K", "test_MD_600K", "test_dihedral", "test_H_transfer"}
    assert sets["test_dihedral"]["force_mae_mev_per_a"] is None
    named = run("eval", out, f"cold={tests[0]}", f"600K={tests[1]}", "--limit", "3").output
    assert re.search(r"cold\W+3", named)
    assert re.search(r"600K\W+3", named)


def test_a_hartree_per_bohr_copy_gives_the_same_model(acac, tmp_path):
    copy = []
    for atoms in ase.io.read(acac / "train_300K.xyz", ":40"):
        new = atoms.copy()
        new.info["dft_energy"] = atoms.get_potential_energy() * ELECTRONVOLTS_TO["Hartree"]
        new.arrays["dft_forces"] = atoms.get_forces() * ELECTRONVOLTS_TO["Hartree/bohr"]
        copy.append(new)
    ase.io.write(tmp_path / "hartree.extxyz", copy)
    isolated = ase.io.read(acac / "isolated_atoms.xyz", ":")
    ase.io.write(tmp_path / "plain.extxyz", ase.io.read(acac / "train_300K.xyz", ":40"))
    for atoms in isolated:
        atoms.info["dft_energy"] = atoms.get_potential_energy() * ELECTRONVOLTS_TO["Hartree"]
        atoms.calc = None
    ase.io.write(tmp_path / "atoms.extxyz", isolated)
    options = ["model.preset=default/small", "model.channels=4", "steps=3", "precision=float64", "data.valid=4"]
    run("train", tmp_path / "plain.extxyz", f"E0s={acac}/isolated_atoms.xyz", "--out", tmp_path / "a", *options)
    run(
        "train", tmp_path / "hartree.extxyz", f"data.reference={tmp_path}/atoms.extxyz", "--units-energy", "Hartree",
        "--units-forces", "Hartree/bohr", "--out", tmp_path / "b", *options,
    )  # fmt: skip
    first, second = (load_model(tmp_path / name / "model.safetensors")[0] for name in "ab")
    structure = ase.io.read(acac / "test_MD_300K.xyz", 0)
    one, two = first.predict(structure), second.predict(structure)
    assert float(one.energy) == pytest.approx(float(two.energy), abs=1e-5)
    np.testing.assert_allclose(one.forces, two.forces, atol=1e-6)


def test_an_element_that_is_only_an_isolated_atom_is_none_of_the_model(clusters, tmp_path):
    images = ase.io.read(clusters, ":")
    for symbol, energy in (("N", -126.0), ("Ar", -0.1)):
        atom = ase.Atoms(symbol)
        atom.calc = SinglePointCalculator(atom, energy=energy)
        images.append(atom)
    ase.io.write(tmp_path / "with.extxyz", images)
    output = run("train", tmp_path / "with.extxyz", "--out", tmp_path / "run", "model.channels=4", "epochs=1").output
    assert "2 isolated atoms (N, Ar) serve as reference energies at most" in output
    assert "isolated-atom energies (isolated, eV): Ar -0.100" in output
    assert "energies only" not in output
    assert open_model(tmp_path / "run")[0].elements == (18,)


def test_the_same_files_work_everywhere(real_data, tmp_path):
    """predict and md read the npz that was trained on; a name with @ is a name."""
    npz = real_data / "rmd17" / "rmd17_ethanol_train_01.npz"
    out = tmp_path / "p.extxyz"
    run("predict", "rmd17-ethanol", npz, "--limit", "3", "--out", out)
    assert len(ase.io.read(out, ":")) == 3
    images = ase.io.read(out, ":")
    ase.io.write(tmp_path / "frames.extxyz", images[:1])
    ase.io.write(tmp_path / "frames@1x.extxyz", images)
    run("predict", "rmd17-ethanol", tmp_path / "frames@1x.extxyz", "--out", out)
    assert len(ase.io.read(out, ":")) == 3
    (tmp_path / "frames@1x.extxyz").unlink()
    assert "frames@1x.extxyz does not exist" in failure("predict", "rmd17-ethanol", tmp_path / "frames@1x.extxyz")
    images[0].center(vacuum=3)
    ase.io.write(tmp_path / "POSCAR", images[0])
    run("relax", "rmd17-ethanol", tmp_path / "POSCAR", "--steps", "1", "--out", tmp_path / "r.extxyz", code=1)
    assert len(ase.io.read(tmp_path / "r.extxyz")) == 9


def test_predictions_beside_what_the_file_has(clusters, tmp_path):
    images = ase.io.read(clusters, ":3")
    for index, atoms in enumerate(images):
        atoms.info["note"] = f"n{index}"
    ase.io.write(tmp_path / "in.extxyz", images)
    run("train", clusters, "--out", tmp_path / "run", "model.channels=4", "epochs=1")
    run("predict", tmp_path / "run", tmp_path / "in.extxyz", "--prefix", "ref_", "--out", tmp_path / "out.extxyz",
        "--add-model", tmp_path / "run")  # fmt: skip
    for before, after in zip(images, ase.io.read(tmp_path / "out.extxyz", ":"), strict=True):
        assert after.get_potential_energy() == pytest.approx(before.get_potential_energy())
        np.testing.assert_allclose(after.get_forces(), before.get_forces(), atol=1e-7)
        assert after.info["note"] == before.info["note"]
        assert after.arrays["ref_forces"].shape == (5, 3)
        assert after.info["ref_energy"] != pytest.approx(before.get_potential_energy())
        assert after.info["ref_energy_std"] == pytest.approx(0.0, abs=1e-9)


def test_labels_and_weights(real_data, clusters, tmp_path):
    output = run("data", "inspect", real_data / "mlearn" / "Si_training.json", "--json", tmp_path / "i.json").output
    assert json.loads((tmp_path / "i.json").read_text())["config_types"]["AIMD-NVT"] == 90
    assert "Structures by label" in output
    images = ase.io.read(clusters, ":")
    for index, atoms in enumerate(images):
        atoms.info["kind"] = "odd" if index % 2 else "even"
    ase.io.write(tmp_path / "kinds.extxyz", images)
    options = ["--config-type", "kind", "model.channels=4", "epochs=1", "data.valid=6"]
    run("train", tmp_path / "kinds.extxyz", "--out", tmp_path / "run", *options, "data.config_type_weights={odd: 0.5}")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics["validation"]["per_config_type"]) == {"odd", "even"}
    table = run("eval", tmp_path / "run", tmp_path / "kinds.extxyz", "--config-type", "kind").output
    assert re.search(r"odd\W+12", table)
    text = failure("train", tmp_path / "kinds.extxyz", *options, "data.config_type_weights={od: 2}")
    assert "names 'od', but no training structure is labelled so (did you mean 'odd'?); labels are: even, odd" in text
    assert "no structure has a key 'knd' with one value (did you mean 'kind'?)" in failure(
        "data", "inspect", tmp_path / "kinds.extxyz", "--config-type", "knd"
    )


def test_one_bad_label_is_named_and_does_no_harm(clusters, tmp_path):
    images = ase.io.read(clusters, ":")
    energy = images[3].get_potential_energy()
    images[3].calc = SinglePointCalculator(images[3], energy=1e6, forces=images[3].get_forces())
    ase.io.write(tmp_path / "bad.extxyz", images)
    options = ["model.channels=4", "epochs=1", "data.valid=0"]
    output = run("train", tmp_path / "bad.extxyz", "--out", tmp_path / "run", *options).output
    assert "training set, energy out of line: bad.extxyz, frame 3: energy +2e+05 eV/atom" in output
    assert abs(read_info(tmp_path / "run" / "model.safetensors").atomic_energies["Ar"]) < 10
    assert energy > -100


def test_a_start_that_fails_leaves_no_folder_and_nothing_is_overwritten(clusters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    for options in (
        ["model.cutoff=0.1"], ["data.reference=isolated"], ["patience=3", "data.valid=0"], ["device=quantum"],
        ["data.train_size=500"],
    ):  # fmt: skip
        failure("train", clusters, "--out", out, *options)
        assert not out.exists(), options
    text = failure("train", clusters, "--out", out, "model.cutoff=0.1")
    assert re.search(
        r"no atom of the \d+ training structures has a neighbour within the cutoff of 0.1 Å \(the shortest", text
    )
    run("train", clusters, "--out", out, "model.channels=4", "epochs=1")
    text = failure("train", clusters, "--out", out, "epochs=1")
    assert "--resume" in text
    assert "--overwrite" in text
    before = (out / "model.safetensors").stat().st_mtime_ns
    run("train", clusters, "--out", out, "model.channels=4", "epochs=1", "--overwrite")
    assert (out / "model.safetensors").stat().st_mtime_ns > before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("…")
    assert "is not the folder of a run" in failure("train", clusters, "--out", tmp_path / "mine", "--overwrite")
    assert "holds no model" in failure("eval", tmp_path / "mine", clusters)


def test_the_shown_config_trains_the_same_model(clusters, tmp_path):
    options = ["model.preset=default/small", "model.channels=4", "epochs=2", "data.valid=4"]
    shown = run("train", clusters, *options, "--show-config").output
    assert "batch_size: 5  # chosen: about 25 atoms in a batch; structures have 5 atoms" in shown
    assert "cutoff: " in shown
    assert re.search(r"elements: \[Ar\]  # chosen: elements of the data", shown)
    assert "learning_rate: 0.005  # chosen" in shown
    path = tmp_path / "shown.yaml"
    path.write_text(shown)
    assert yaml.safe_load(shown)["model"]["lmax"] == 2
    run("train", clusters, *options, "--out", tmp_path / "a")
    run("train", path, "--out", tmp_path / "b")
    assert _losses(tmp_path / "a") == _losses(tmp_path / "b")


def _losses(directory):
    rows = (directory / "history.csv").read_text().splitlines()
    column = rows[0].split(",").index("train_loss")
    return [row.split(",")[column] for row in rows[1:]]


def test_the_log_holds_everything_and_the_screen_a_few_lines(clusters, tmp_path):
    out = tmp_path / "run"
    output = run("train", clusters, "--out", out, "model.channels=4", "epochs=60", "validate_every=1").output
    log = (out / "train.log").read_text()
    assert log.count("epoch ") >= 60
    assert 2 <= len(re.findall(r"^ *\d+% epoch", output, flags=re.MULTILINE)) <= 20
    assert "RMSE" in output
    for text in ("Structures", "run folder", "report", "baseline"):
        assert text in log


def test_energies_alone_are_announced_once(clusters, tmp_path):
    images = ase.io.read(clusters, ":")
    for atoms in images:
        atoms.calc = SinglePointCalculator(atoms, energy=atoms.get_potential_energy())
    ase.io.write(tmp_path / "e.extxyz", images)
    output = run("train", tmp_path / "e.extxyz", "--out", tmp_path / "run", "model.channels=4", "epochs=1").output
    assert output.count("energies only: no training structure carries forces") == 1
    assert "no forces label was found" not in output


def test_duplicates_leaks_and_fine_tuning_are_named(clusters, tmp_path):
    images = ase.io.read(clusters, ":")
    ase.io.write(tmp_path / "twice.extxyz", [*images, *images[:3]])
    output = run("train", tmp_path / "twice.extxyz", "--test", clusters, "--out", tmp_path / "a", "model.channels=4",
                 "epochs=1", "data.valid=0").output  # fmt: skip
    assert re.search(
        r"3 training structures are repetitions of others \(for example twice.extxyz, frame \d+ = twice", output
    )
    assert "24 of 24 test structures are also in the training set (leakage" in output
    page = (tmp_path / "a" / "report" / "index.html").read_text()
    assert "leakage" in page
    tuned = run("train", clusters, f"finetune={tmp_path}/a", "--out", tmp_path / "b", "epochs=1").output
    assert f"fine-tuned from {tmp_path}/a (Ar" in tuned.replace("\n", "")


def test_flags_of_other_packages_are_explained():
    for flags, text in (
        (
            ["--batch-size", "5"],
            "there is no option --batch-size; here it is 'batch_size', as in batch_size=VALUE after the files",
        ),
        (["--r_max", "5"], "here it is 'model.cutoff'"),
        (["--E0s", "average"], "here it is 'data.reference'"),
        (["--max_num_epochs", "5"], "here it is 'epochs'"),
        (["--tset", "x"], "did you mean '--test'"),
    ):
        assert text in failure("train", "a.xyz", *flags)


def test_errors_of_files(tmp_path):
    assert isinstance(RUNNER.invoke(app, ["train", str(tmp_path / "none.xyz")]).exception, DataError)
    result = RUNNER.invoke(app, ["eval", "ethanol-gfn2"])
    assert result.exit_code == 2
    assert isinstance(RUNNER.invoke(app, ["train", "a.xyz", "b.yaml", "c.yaml"]).exception, ConfigError)


def test_dispersion_in_predictions_and_velocities_of_a_database(tmp_path):
    atoms = ase.build.molecule("CH3CH2OH")
    atoms.set_momenta(np.random.default_rng(0).normal(size=(9, 3)))
    ase.io.write(tmp_path / "start.db", atoms)
    plain, added = tmp_path / "plain.extxyz", tmp_path / "added.extxyz"
    run("predict", "rmd17-ethanol", tmp_path / "start.db", "--out", plain)
    run("predict", "rmd17-ethanol", tmp_path / "start.db", "--out", added, "--d3", "pbe")
    difference = ase.io.read(added).get_potential_energy() - ase.io.read(plain).get_potential_energy()
    assert -0.5 < difference < -0.05  # D3 of ethanol with PBE
    run("md", "rmd17-ethanol", tmp_path / "start.db", "--ensemble", "nve", "--steps", "2", "--interval", "1",
        "--trajectory", tmp_path / "t.traj", "--log", tmp_path / "l.csv", "--restart", tmp_path / "r.npz")  # fmt: skip
    first = (tmp_path / "l.csv").read_text().splitlines()[1].split(",")
    assert float(first[3]) == pytest.approx(atoms.get_kinetic_energy())


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_one_sentence(clusters, tmp_path):
    (tmp_path / "file").write_text("in the way")
    text = failure("train", clusters, "--out", tmp_path / "file" / "run", "model.channels=4", "epochs=1")
    assert text.startswith(f"cannot write {tmp_path}/file/run/")
    with pytest.raises(FileWriteError, match=r"cannot write /dev/full/m: .*; check the folder and the disk"):
        write_atomically(Path("/dev/full/m"), lambda _: None)

    def full(_: Path) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with pytest.raises(FileWriteError, match="No space left on device"):
        write_atomically(tmp_path / "m", full)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clusters.extxyz", "file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_log_that_cannot_be_written_does_not_end_a_training(tmp_path, capsys):
    show = Printer(Console(width=100))
    (tmp_path / "train.log").symlink_to("/dev/full")
    show.open(tmp_path)
    show("a line")
    show("another")
    show.close()
    printed = capsys.readouterr().out
    assert printed.count("train.log ends here: No space left on device") == 1
    assert "another" in printed
