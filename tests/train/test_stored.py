"""Training on sets that stay on disk."""

import pytest
from typer.testing import CliRunner

from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError
from cliffordstf.model.file import load_model
from cliffordstf.train.config import load_config
from cliffordstf.train.run import resume, train


@pytest.fixture
def shards(clusters, tmp_path):
    folder = tmp_path / "clusters.shards"
    words = ["data", "convert", str(clusters), "--out", str(folder), "--shard-size", "7"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder


def run(options, folder, directory, *more):
    config = load_config(None, [*options, f"data.train={folder}", *more])
    result = train(config, directory)
    assert result is not None
    return result


def weights(result) -> list[list[float]]:
    return [value.flatten().tolist() for value in result.potential.state_dict().values()]


def test_weights_do_not_depend_on_where_the_structures_are(options, shards, clusters, tmp_path):
    found = [
        run(options, shards, tmp_path / "disk", "data.in_memory=false"),
        run(options, shards, tmp_path / "memory", "data.in_memory=true"),
        run(options, clusters, tmp_path / "extxyz"),
    ]
    assert weights(found[0]) == weights(found[1]) == weights(found[2])
    assert [result.history[-1]["valid_force_mae_mev_per_a"] for result in found[:2]] == [
        found[2].history[-1]["valid_force_mae_mev_per_a"]
    ] * 2
    assert any("stay on disk" in warning for warning in found[0].warnings)


def test_a_run_on_disk_goes_on(options, shards, tmp_path):
    whole = run(options, shards, tmp_path / "whole", "data.in_memory=false")
    run(options, shards, tmp_path / "parts", "data.in_memory=false", "epochs=2")
    assert resume(tmp_path / "parts", epochs=4) is not None
    steps = whole.history[-1]["step"]
    assert load_model(tmp_path / "parts" / "model.safetensors")[1].provenance["steps"] == steps


def test_options_that_need_everything_in_memory_are_refused(options, shards, tmp_path):
    for more in (f"data.cache={tmp_path / 'cache.npz'}", "data.config_type_weights={a: 2}"):
        with pytest.raises(ConfigError, match="memory"):
            run(options, shards, tmp_path / "run", "data.in_memory=false", more)
