"""The command, with real samples packed as they are published and taken from this machine."""

import shutil
import tarfile
import zipfile
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.studies.acac import acac_job
from cliffordstf.bench.studies.rmd17 import rmd17_job
from cliffordstf.cli import fetch as command
from cliffordstf.cli.main import app
from cliffordstf.data.fetch import CATALOGUE
from cliffordstf.data.readers import read_frames
from cliffordstf.errors import ConfigError, DownloadError

RUNNER = CliRunner()


def run(*arguments):
    result = RUNNER.invoke(app, ["data", "fetch", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture
def anything_goes(monkeypatch):
    """The catalogue with nothing published: samples are not the real archives, but packed like them."""
    free = {
        name: replace(
            dataset,
            parts={
                part: tuple(replace(file, size=None, checksums=(), unpack=_small(file.unpack)) for file in files)
                for part, files in dataset.parts.items()
            },
        )
        for name, dataset in CATALOGUE.items()
    }
    monkeypatch.setattr(command, "CATALOGUE", free)


def _small(unpack):
    return None if unpack is None else replace(unpack, size=None)


def test_the_list_and_the_plan_fetch_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = run("--list")
    for text in (*CATALOGUE, "1.07 GB", "s2ef-200k *", "val_ood_both", "none"):
        assert text in listed
    plan = run("oc22", "--parts", "is2re,s2ef", "--dry-run")
    assert "about 21.6 GB in all" in plan
    assert "to fetch" in plan
    assert not list(tmp_path.iterdir())


def test_mistakes_are_errors_a_user_can_act_on():
    unknown = RUNNER.invoke(app, ["data", "fetch", "rmd-17"])
    assert isinstance(unknown.exception, ConfigError)
    assert "did you mean 'rmd17'" in str(unknown.exception)
    none = RUNNER.invoke(app, ["data", "fetch"])
    assert isinstance(none.exception, ConfigError)
    part = RUNNER.invoke(app, ["data", "fetch", "oc20", "--parts", "val-id", "--dry-run"])
    assert "did you mean 'val_id'" in str(part.exception)


def test_a_false_archive_is_refused(tmp_path):
    (tmp_path / "rmd17.tar.bz2").write_bytes(b"something else")
    result = RUNNER.invoke(
        app, ["data", "fetch", "rmd17", "--to", str(tmp_path / "to"), "--url", str(tmp_path / "rmd17.tar.bz2")]
    )
    assert isinstance(result.exception, DownloadError)
    assert "14 bytes where 1,066,301,513 are published" in str(result.exception)
    assert not (tmp_path / "to" / "rmd17.tar.bz2").exists()


def test_acetylacetone_is_ready_for_bench(real_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("acac", "--url", real_data / "acac")
    assert "no checksum of it is published" in said
    assert "next: cliffordstf bench acac --data data/acac" in said
    assert "licence MIT" in said
    job = acac_job(tmp_path / "data" / "acac")
    assert set(job.config.data.reference) == {"H", "C", "O"}
    assert "is the same as at the first fetch" in run("acac", "--url", real_data / "acac")


def test_rmd17_is_ready_for_bench(real_data, tmp_path, monkeypatch, anything_goes):
    source = tmp_path / "rmd17"
    (source / "npz_data").mkdir(parents=True)
    (source / "splits").mkdir()
    shutil.copy(real_data / "rmd17/rmd17_ethanol_test_01.npz", source / "npz_data" / "rmd17_ethanol.npz")
    for part in ("train", "test"):
        (source / "splits" / f"index_{part}_01.csv").write_text("0\n1\n2\n")
    with tarfile.open(tmp_path / "rmd17.tar.bz2", "w:bz2") as archive:
        archive.add(source, "rmd17")
    folder = tmp_path / "with a space"
    said = run("rmd17", "--to", folder, "--url", tmp_path / "rmd17.tar.bz2")
    assert f"next: cliffordstf bench rmd17 --data '{folder}'" in said
    job = rmd17_job(folder, "ethanol")
    frames, source_of = read_frames(str(job.config.data.train))
    assert (len(frames), source_of.format) == (1000, "revised MD17 npz")
    assert "was fetched, checked and unpacked before" in run("rmd17", "--to", folder)


def test_qm9_is_ready_for_bench(real_data, tmp_path, anything_goes):
    shutil.copy(real_data / "qm9/dsgdb9nsd_sample.xyz.tar.bz2", tmp_path / "dsgdb9nsd.xyz.tar.bz2")
    shutil.copy(real_data / "qm9/uncharacterized_load_atoms_bad_qm9.txt", tmp_path / "uncharacterized.txt")
    folder = tmp_path / "qm9"
    said = run("qm9", "--to", folder, "--url", tmp_path)
    assert f"next: cliffordstf bench qm9 --data {folder}/raw --exclude {folder}/uncharacterized.txt" in said
    frames, source = read_frames(str(folder / "raw"), limit=5)
    assert (len(frames), source.format) == (5, "QM9 xyz")


def test_molecule3d_is_ready_for_bench(real_data, tmp_path, anything_goes):
    source = real_data / "molecule3d/layout_fixture_from_qm9"
    with zipfile.ZipFile(tmp_path / "any name.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in source.rglob("*"):
            archive.write(path, path.relative_to(source))
    folder = tmp_path / "molecule3d"
    run("molecule3d", "--to", folder, "--url", tmp_path / "any name.zip")
    frames, source_of = read_frames(str(folder / "data/raw"), limit=5)
    assert (len(frames), source_of.format) == (5, "Molecule3D")


def test_open_catalyst_is_ready_for_bench(real_data, tmp_path, anything_goes):
    for split, name in (("train", "s2ef_train_200K"), ("val", "s2ef_val_id")):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            archive.add(real_data / "oc20/derived_s2ef_raw" / split, f"{name}/{name}")
    with tarfile.open(tmp_path / "s2ef_total_train_val_test_lmdbs.tar.gz", "w:gz") as archive:
        lmdb = real_data / "oc22/derived_lmdb/s2ef-total"
        archive.add(lmdb, "s2ef_total_train_val_test_lmdbs/data/oc22/s2ef-total")
        archive.add(
            lmdb / "val_id", "s2ef_total_train_val_test_lmdbs/data/oc22/s2ef-total/val_ood"
        )  # not in the sample
    oc20, oc22 = tmp_path / "oc20", tmp_path / "oc22"
    said = run("oc20", "--to", oc20, "--url", tmp_path)
    train, test = oc20 / "s2ef/200k/train", oc20 / "s2ef/all/val_id"
    assert f"next: cliffordstf bench oc20 --task s2ef --train {train} --test val_id={test}" in said
    assert read_frames(str(train), limit=3)[1].format == "OC20 S2EF shard"
    run("oc22", "--to", oc22, "--url", tmp_path, "--parts", "s2ef")
    assert read_frames(str(oc22 / "s2ef-total/train"))[1].format == "Open Catalyst LMDB"
