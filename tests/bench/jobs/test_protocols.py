"""Three protocols, kept apart; what authors recommend is an option of `train` with a source."""

from pathlib import Path

import pytest

from cliffordstf import zoo
from cliffordstf.bench.jobs.protocols import protocol_options, recipe_name
from cliffordstf.bench.jobs.recommended_settings import RECOMMENDED, Settings
from cliffordstf.errors import ConfigError
from cliffordstf.train.config import TrainConfig, load_config
from cliffordstf.train.run import train

DOCS = Path(__file__).parents[3] / "docs" / "bench.md"

EVERY = [(family, benchmark, settings) for family, own in RECOMMENDED.items() for benchmark, settings in own.items()]


def config(benchmark: str, model: str, protocol: str = "recommended") -> TrainConfig:
    return load_config(None, ["data.train=here.xyz", *protocol_options(protocol, benchmark, model)])


@pytest.mark.parametrize(("family", "benchmark", "settings"), EVERY)
def test_every_setting_is_an_option_and_leaves_nothing_to_our_recipe(family, benchmark, settings):
    names = {option.partition("=")[0] for option in settings.options}
    assert len(names) == len(settings.options)
    needed = {"batch_size", "epochs", "patience", "average", "data.scale", "schedule.kind"}
    needed |= {"schedule.warmup_steps", "schedule.warmup_share"}
    needed |= {f"optimizer.{name}" for name in ("name", "learning_rate", "weight_decay", "clip")}
    needed |= {"loss.energy.kind", "loss.energy.weight", "loss.energy_per"}
    if benchmark in ("rmd17", "oc20 s2ef"):
        needed |= {"loss.forces.kind", "loss.forces.weight"}
    found = load_config(None, ["data.train=here.xyz", *settings.options])
    needed |= {"plateau": {"schedule.factor", "schedule.patience"}}.get(found.schedule.kind, {"schedule.final"})
    assert needed <= names


@pytest.mark.parametrize("settings", [settings for *_, settings in EVERY])
def test_every_setting_has_a_source_that_the_documentation_names(settings: Settings):
    assert settings.source in DOCS.read_text(encoding="utf-8")


def test_settings_belong_to_a_family_and_hold_for_all_its_presets():
    for family in RECOMMENDED:
        assert [name for name in zoo.names() if name == family or name.startswith(f"{family}-")]
    assert config("rmd17", "mace-l1") == config("rmd17", "mace-l3-md17")
    assert config("qm9", "dimenet++") == config("qm9", "dimenet++-qm9")
    assert config("rmd17", "painn") == config("rmd17", "schnet-md17")


def test_some_settings_as_their_authors_state_them():
    mace = config("rmd17", "mace-l2")
    assert (mace.optimizer.name, mace.optimizer.learning_rate, mace.optimizer.clip) == ("amsgrad", 0.01, 10)
    assert (mace.schedule.kind, mace.schedule.factor, mace.schedule.patience) == ("plateau", 0.8, 50)
    assert (mace.loss.energy.weight, mace.loss.forces.weight, mace.loss.energy_per) == (1, 100, "atom")
    assert (mace.batch_size, mace.average, mace.epochs, mace.patience) == (10, 0.99, 1500, None)
    nequip = config("rmd17", "nequip-l1")
    assert (nequip.batch_size, nequip.loss.forces.weight, nequip.loss.energy_per) == (5, 1000, "structure")
    assert (nequip.optimizer.clip, nequip.patience, nequip.data.scale) == (None, 1000, "auto")
    torchmd = config("rmd17", "torchmd-et")
    assert torchmd.loss.energy.weight / torchmd.loss.forces.weight == pytest.approx(0.05 * 0.2 / 0.8)
    assert (torchmd.data.scale, torchmd.average, torchmd.schedule.warmup_steps) == ("energy", 0, 1000)
    assert config("rmd17", "painn").data.scale == pytest.approx(0.043364, rel=1e-4)
    assert config("qm9", "dimenet++").schedule.final == pytest.approx(0.01**0.75, rel=1e-3)
    equiformer = config("oc20 s2ef", "equiformer-l4-oc")
    assert (equiformer.loss.forces.kind, equiformer.loss.forces.weight, equiformer.epochs) == ("l2", 100, 12)


@pytest.mark.parametrize(("family", "benchmark"), [("mace", "rmd17"), ("tensornet", "rmd17"), ("dimenet++", "qm9")])
def test_settings_train(family, benchmark, options, tmp_path):
    """AMSGrad and AdamW, plateau and exponential, with the scale and without clipping: a run of a second."""
    theirs = RECOMMENDED[family][benchmark].options
    run = train(load_config(None, [*options, *theirs, "batch_size=8", "epochs=3"]), tmp_path / "run")
    assert run is not None
    assert len(run.history) == 3
    assert all(row["train_loss"] > 0 for row in run.history)


def test_our_own_recommendation_is_what_train_does_by_itself():
    assert protocol_options("recommended", "rmd17", "default") == ()
    assert protocol_options("recommended", "qm9", "default/large") == ()
    assert protocol_options("sound", "rmd17", "default") == ()


def test_what_is_not_known_is_one_sentence():
    with pytest.raises(ConfigError, match=r"authors of 'ictp-l1' are known here; use --protocol sound or paper\.$"):
        protocol_options("recommended", "rmd17", "ictp-l1")
    with pytest.raises(ConfigError, match=r"'equiformer-l4' for rmd17 are known here, only for oc20 s2ef; use"):
        protocol_options("recommended", "rmd17", "equiformer-l4")
    with pytest.raises(ConfigError, match=r"only for rmd17 and qm9; use"):
        protocol_options("recommended", "oc22 is2re", "painn")
    with pytest.raises(ConfigError, match=r"'paper/full' is trained with is stated in its paper; use --protocol paper"):
        protocol_options("recommended", "rmd17", "paper/full")
    with pytest.raises(ConfigError, match="did you mean 'recommended'"):
        protocol_options("recomended", "rmd17", "mace-l1")


@pytest.mark.parametrize(
    ("benchmark", "model", "theirs"),
    [
        ("rmd17", "painn", "painn-md17"),
        ("rmd17", "equiformer-l4-qm9", "equiformer-l4-md17"),
        ("rmd17", "paper/clifford", "paper/clifford-md17"),
        ("qm9", "schnet", "schnet-qm9"),
        ("molecule3d", "faenet", "faenet-qm9"),
        ("oc20 s2ef", "mace-l1", "mace-l1-oc"),
    ],
)
def test_the_papers_protocol_wants_the_papers_architectures(benchmark, model, theirs):
    with pytest.raises(ConfigError, match=f"these are those of '{theirs}'"):
        protocol_options("paper", benchmark, model)
    assert protocol_options("paper", benchmark, theirs)
    assert protocol_options("paper", benchmark, "paper/full")
    assert protocol_options("paper", "rmd17", "ictp-l1"), "the plain name has the paper's settings"


def test_the_name_of_a_recipe_says_the_protocol():
    assert recipe_name("sound", "painn") == "painn"
    assert recipe_name("recommended", "painn") == "painn recommended"
    assert recipe_name("paper", "painn", "wide") == "wide paper"
    assert recipe_name("sound", "painn", "wide") == "wide"
