"""Python does what the commands do: paths as text, lists of Atoms in, arrays out; and the docstrings run."""

import doctest
import importlib
import pkgutil

import ase.io
import numpy as np
import pytest

import cliffordstf
from cliffordstf import api
from cliffordstf.errors import ConfigError, DataError

SMALL = {"model": {"preset": "default/small", "channels": 4}, "epochs": 2, "data__valid": 4}


def test_train_evaluate_predict_with_paths_and_with_atoms(clusters, tmp_path):
    seen = []
    run = cliffordstf.train(
        str(clusters),
        out=str(tmp_path / "a"),
        test=str(clusters),
        progress=lambda s, row: seen.append((s, row)),
        **SMALL,
    )
    assert run.directory == tmp_path / "a"
    assert set(run.metrics) == {"validation", "test"}
    assert seen[-1][0] == 1.0
    assert seen[-1][1]["valid_force_mae_mev_per_a"] > 0
    images = ase.io.read(clusters, ":")
    again = cliffordstf.train(images, out=tmp_path / "b", test=images, **SMALL)
    # Splits, weights and batches do not depend on where structures come from.
    assert again.metrics["test"]["force_mae_mev_per_a"] == run.metrics["test"]["force_mae_mev_per_a"]
    for model in (run.potential, run.directory, str(run.directory / "model.safetensors")):
        errors = cliffordstf.evaluate(model, images)
        assert errors["force_mae_mev_per_a"] == pytest.approx(run.metrics["test"]["force_mae_mev_per_a"])
    pair = [run.potential, again.directory]
    found = cliffordstf.predict(pair, images[:3])
    assert found["energy"].shape == (3,)
    assert [forces.shape for forces in found["forces"]] == [(5, 3)] * 3
    np.testing.assert_allclose(found["energy_std"], 0.0, atol=1e-9)
    assert np.isnan(found["stress"]).all()
    assert cliffordstf.evaluate(pair, clusters)["force_std_mev_per_a"] == pytest.approx(0.0, abs=1e-6)
    assert cliffordstf.load(run.directory).cutoff == run.potential.cutoff


def test_mistakes_are_clear(clusters, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no option 'lr'; here it is 'optimizer.learning_rate'"):
        cliffordstf.train(clusters, lr=1e-3)
    with pytest.raises(ConfigError, match="one structure was given where a list"):
        cliffordstf.train(ase.io.read(clusters, 0))
    with pytest.raises(DataError, match="an empty list was given"):
        cliffordstf.evaluate("ethanol-gfn2", [])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists; give another folder or overwrite=True"):
        cliffordstf.train(clusters, out=tmp_path / "full", **SMALL)
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        cliffordstf.train(clusters, out=tmp_path / "full", overwrite=True, **SMALL)
    with pytest.raises(ConfigError, match=r"there is no option 'data.unit' \(did you mean 'units'\?\)"):
        cliffordstf.evaluate("ethanol-gfn2", clusters, unit__energy="eV")


def test_everything_is_exported_and_documented():
    for name in cliffordstf.__all__:
        thing = getattr(cliffordstf, name)
        assert thing.__doc__ or isinstance(thing, str | dict), name
    for function in (api.train, cliffordstf.evaluate, cliffordstf.predict, cliffordstf.load):
        assert ">>>" in function.__doc__


def test_the_package_that_is_called_stays_a_package():
    import cliffordstf.train.config as config  # noqa: PLC0415, PLR0402 - the form that a function in its place would break

    assert callable(cliffordstf.train)
    assert cliffordstf.train.config is config


EXTRAS = {"cliffordstf.integrations.openmm": "openmm", "cliffordstf.integrations.torch_sim": "torch_sim"}
"""Modules that are written for another package, which they import -> that package."""


def _modules():
    skipped = ("cliffordstf.zoo", "cliffordstf.__main__", "cliffordstf.kernels.gpu")
    for item in pkgutil.walk_packages(cliffordstf.__path__, "cliffordstf."):
        if not item.name.startswith(skipped):
            yield item.name


@pytest.mark.parametrize("name", sorted(_modules()))
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(module, name, extraglobs={}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
