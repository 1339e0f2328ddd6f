import pytest
import yaml

from cliffordstf.errors import ConfigError
from cliffordstf.options.duration import parse_duration
from cliffordstf.train.choices import most_epochs, peak_learning_rate
from cliffordstf.train.config import (
    TrainConfig,
    load_config,
    load_run_config,
    parse_train_config,
    to_yaml,
)


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "data: {train: a.xyz, valid: 10}\nmodel: {preset: default, lmax: 3}\noptimizer: {learning_rate: 1e-3}\n"
    )
    config = load_config(path, ["model.channels=16", "optimizer.learning_rate=2e-3", "data.valid=0.2"])
    assert config.model == {"preset": "default", "lmax": 3, "channels": 16}
    assert config.optimizer.learning_rate == 2e-3
    assert config.data.valid == 0.2
    assert config.data.train == "a.xyz"


def test_written_config_reads_back(tmp_path):
    config = load_config(None, ["data.train=a.xyz", "budget=20min", "data.reference={H: -13.6}"])
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config))
    assert load_config(path, []) == config
    assert yaml.safe_load(path.read_text())["budget"] == 1200.0


def test_a_weight_alone_does_not_change_the_kind_of_an_error():
    changed = load_config(None, ["data.train=a.xyz", "loss.energy.weight=1", "loss.forces.final_weight=2"]).loss
    plain = load_config(None, ["data.train=a.xyz"]).loss
    assert (changed.energy.kind, changed.forces.kind) == (plain.energy.kind, plain.forces.kind) == ("l1", "l2")
    assert (changed.energy.weight, changed.forces.weight, changed.forces.final_weight) == (1, plain.forces.weight, 2)
    assert changed.stress == plain.stress


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimiser.name=adam", r"there is no option 'optimiser' \(did you mean 'optimizer'\?\)"),
        ("optimizer.lerning_rate=1", r"there is no option 'optimizer.lerning_rate' \(did you mean 'learning_rate'\?\)"),
        ("loss.forces.wieght=1", r"there is no option 'loss.forces.wieght' \(did you mean 'weight'\?\)"),
        ("optimizer.name=sgd", "option 'optimizer.name' is 'sgd', but it must be 'adam', 'amsgrad', 'adamw' or 'muon'"),
        ("budget=soon", "'soon' is not a duration"),
        ("epochs", "'epochs' is not an override"),
        (
            "data.reference=[1]",
            "option 'data.reference' is .*, but it must be auto, isolated, least-squares, mean, none",
        ),
        ("data.units.energy=2", "option 'data.units.energy' is 2, but it must be text"),
        ("data.units.energy=eW", "option 'data.units.energy': 'eW' is not a unit of energy; choose one of eV, meV"),
        ("lr=1e-3", "there is no option 'lr'; here it is 'optimizer.learning_rate'"),
        ("r_max=5", "there is no option 'r_max'; here it is 'model.cutoff'"),
        ("model.r_max=5", "there is no option 'model.r_max'; here it is 'model.cutoff'"),
        ("model.cutof=5", r"there is no option 'model.cutof' \(did you mean 'cutoff'\?\)"),
        ("max_num_epochs=5", "there is no option 'max_num_epochs'; here it is 'epochs'"),
        ("energy_weight=5", "there is no option 'energy_weight'; here it is 'loss.energy.weight'"),
        ("finetune={modl: x}", r"there is no option 'finetune.modl' \(did you mean 'model'\?\)"),
        ("batch_size=0", "option 'batch_size' is 0, but it must be a whole number above 0 or 'auto'"),
        ("budget=-3", "option 'budget' is -3, but it must be a time above 0, such as 90s, 20min or 1.5h"),
        ("loggers=[board]", "option 'loggers' is .*, but it must be a list of 'tensorboard' or 'wandb'"),
    ],
)
def test_mistakes_are_one_clear_error(override, message):
    with pytest.raises(ConfigError, match=message):
        load_config(None, ["data.train=a.xyz", override])


def test_references_from_a_file_and_plain_numbers_are_options():
    config = load_config(None, ["data.train=a.xyz", "data.reference=lin.npz", "data.units.energy=1"])
    assert (config.data.reference, config.data.units.energy) == ("lin.npz", "1")
    assert "free_atoms_only: false" in to_yaml(config)
    options = TrainConfig.model_json_schema()["$defs"]["DataConfig"]["properties"]
    assert {"exclude", "free_atoms_only", "valid_indices"} <= set(options)
    assert {"type": "string"} in options["reference"]["anyOf"]


def test_names_of_other_packages_that_are_taken_over():
    atoms = {"1": -13.6, "8": -2041.0}
    for option in (
        "E0s={1: -13.6, 8: -2041.0}",
        "data.E0s={1: -13.6, 8: -2041.0}",
        "data.reference={1: -13.6, 8: -2041}",
    ):
        assert load_config(None, ["data.train=a.xyz", option]).data.reference == atoms
    assert load_config(None, ["data.train=a.xyz", "E0s=average"]).data.reference == "least-squares"
    with pytest.raises(ConfigError, match="E0s and reference are the same option and both are given"):
        load_config(None, ["data.train=a.xyz", "data.E0s=average", "data.reference=mean"])
    assert load_config(None, ["data.train=a.xyz", "finetune=old.safetensors"]).finetune.model == "old.safetensors"
    assert load_config(None, ["data.train=a.xyz", "loggers=wandb"]).loggers == ("wandb",)


def test_files_may_be_lists(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("data: {train: [a.xyz, 'b/*.xyz'], valid: [v.xyz], test: [t.xyz, u.xyz]}\n")
    data = load_config(path, []).data
    assert (data.train, data.valid, data.test) == (["a.xyz", "b/*.xyz"], ["v.xyz"], ["t.xyz", "u.xyz"])
    path.write_text("data: {trian: a.xyz}\n")
    with pytest.raises(ConfigError, match=r"there is no option 'data.trian' \(did you mean 'train'\?\)"):
        load_config(path, [])


def test_bad_yaml(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("data: [1, 2\n")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        load_config(path, [])
    path.write_text("- a\n- b\n")
    with pytest.raises(ConfigError, match="must hold options"):
        load_config(path, [])
    with pytest.raises(ConfigError, match="not a valid value"):
        load_config(None, ["model={a"])
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none.yaml", [])


def test_a_run_has_an_end():
    assert load_config(None, ["data.train=a"]).budget == 900.0
    assert load_config(None, ["data.train=a", "epochs=3"]).budget is None
    assert load_config(None, ["data.train=a", "steps=3"]).budget is None
    assert load_config(None, ["data.train=a", "steps=null"]).budget == 900.0


def test_durations():
    assert [parse_duration(text) for text in ("90s", "20min", "1.5h", "45")] == [90, 1200, 5400, 45]


def test_every_option_is_documented():
    def undocumented(model, path=""):
        for name, field in model.model_fields.items():
            if hasattr(field.annotation, "model_fields"):
                yield from undocumented(field.annotation, f"{path}{name}.")
            elif not field.description and not path:
                yield name

    assert list(undocumented(TrainConfig)) == []


def test_few_structures_are_not_repeated_for_ever():
    assert [most_epochs("auto", count) for count in (50, 199, 200, 10_000)] == [300, 300, None, None]
    assert most_epochs(7, 50) == 7
    assert most_epochs(None, 50) is None


def test_few_structures_go_the_same_way_in_any_number_of_steps():
    steps = (1_000, 5_000, 15_000, 60_000, None)
    assert [peak_learning_rate("auto", 50, count) for count in steps] == [5e-3, 4e-3, 20 / 15_000, 1e-3, 5e-3]
    assert [peak_learning_rate("auto", 200, count) for count in steps] == [5e-3] * 5
    assert peak_learning_rate(1e-4, 50, 5_000) == 1e-4
    assert parse_train_config({"data": {"train": "x.xyz"}, "epochs": "auto"}).budget == 900


def test_a_colon_in_a_value_does_not_make_it_a_mapping():
    assert load_config(None, ["data.train=qm9pack:", "data.train_indices=a.json:train"]).data.train == "qm9pack:"


def test_a_run_that_knew_no_limit_of_its_warm_up_goes_on_without_one(tmp_path):
    new = load_config(None, ["data.train=a.xyz"])
    (tmp_path / "config.yaml").write_text(to_yaml(new))
    assert load_run_config(tmp_path) == new
    values = yaml.safe_load(to_yaml(new))
    del values["schedule"]["warmup_share"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert load_run_config(tmp_path).schedule.warmup_share is None
    assert load_run_config(tmp_path, ["steps=7"]).steps == 7
