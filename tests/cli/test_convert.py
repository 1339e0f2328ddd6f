import numpy as np
import pytest
from ase.build import molecule
from ase.io import read, write
from typer.testing import CliRunner

from cliffordstf import datasets
from cliffordstf.cli.main import app
from cliffordstf.data.load import load_frames
from cliffordstf.errors import ConfigError

RUNNER = CliRunner()


def convert(*words) -> str:
    result = RUNNER.invoke(app, ["data", "convert", *map(str, words)])
    if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", ["out.shards", "out.extxyz"])
def test_structures_and_labels_stay_the_same(name, tmp_path):
    source, out = datasets.path("ethanol_gfn2"), tmp_path / name
    said = convert(source, "--out", out, "--shard-size", 7, "--limit", 20)
    assert "20 structures with 180 atoms in all" in said
    assert "20 with energy, 20 with forces, 0 with stress" in said
    for before, after in zip(load_frames(source).frames, load_frames(out).frames, strict=False):
        np.testing.assert_allclose(before.structure.positions, after.structure.positions, atol=1e-7)
        assert before.energy == pytest.approx(after.energy, abs=1e-7)
        np.testing.assert_allclose(before.forces, after.forces, atol=1e-7)
    assert len(load_frames(out).frames) == 20
    assert not (tmp_path / f"{name}.work").exists()


def test_units_become_ours(real_data, tmp_path):
    source = real_data / "rmd17" / "rmd17_ethanol_train_01.npz"
    convert(source, "--out", tmp_path / "out.extxyz", "--limit", 3)
    for before, atoms in zip(load_frames(source).frames, read(tmp_path / "out.extxyz", ":"), strict=False):
        assert atoms.get_potential_energy() == pytest.approx(before.energy, abs=1e-6)


def test_what_an_earlier_process_left_goes(tmp_path):
    folder = tmp_path / "out.shards"
    for name in (".000000.abc", "000009", "notes"):
        (folder / name).mkdir(parents=True)
    write(tmp_path / "in.extxyz", [molecule("H2O")] * 3)
    convert(tmp_path / "in.extxyz", "--out", folder, "--shard-size", 2)
    assert sorted(item.name for item in folder.iterdir()) == ["000000", "000001", "index.json", "notes"]


def test_labels_under_different_keys_are_named(tmp_path):
    images = [molecule("H2O") for _ in range(4)]
    for index, atoms in enumerate(images):
        atoms.info["dft_energy" if index < 2 else "total_energy"] = float(index)
    write(tmp_path / "in.extxyz", images)
    said = " ".join(convert(tmp_path / "in.extxyz", "--out", tmp_path / "out.shards", "--shard-size", 2).split())
    assert "hold the energy under different keys (dft_energy, total_energy); name the one that you mean" in said


def test_nothing_to_convert_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="at least one file"):
        convert("--out", tmp_path / "out.shards", "data.limit=3")
