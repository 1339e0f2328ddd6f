"""The one typed description of a training run: validation, defaults, documentation and JSON schema come from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from cliffordstf.data.options import ReadOptions
from cliffordstf.errors import ConfigError
from cliffordstf.model.presets import preset
from cliffordstf.options import Accepts, Options, leaves, parse_options
from cliffordstf.options.duration import Duration
from cliffordstf.options.yaml_text import load_yaml
from cliffordstf.train.foreign import hint, model_paths
from cliffordstf.train.loss import LossConfig

FEW_STRUCTURES = 200
"""Smaller training sets are learned in smaller steps and not without end, see `batch_size` and `epochs`; of single
molecules with a shorter cutoff too, and small ones with a layer more."""


Files = Annotated[str | list[str], Accepts("a file, a folder, a pattern, or a list of these")]
Held = Annotated[
    float | str | list[str], Accepts("a fraction below 1, a count, a file, a folder, a pattern, or a list of files")
]


def _by_name(value: Any) -> Any:
    """Reference energies by text; `average` is what other packages call the fit."""
    if isinstance(value, dict):
        return {str(name): energy for name, energy in value.items()}
    return "least-squares" if value == "average" else value


References = Annotated[
    str | dict[str, float],
    BeforeValidator(_by_name),
    Accepts("auto, isolated, least-squares, mean, none, a file, or energies such as {H: -13.6, O: -2041.8}"),
]


class DataConfig(ReadOptions):
    """Where structures come from and how they are divided."""

    train: Files = Field(description="File, folder or pattern with the structures to learn from, or a list of these.")
    valid: Held = Field(
        0.05, description="Validation set: a fraction (below 1) or count of the training structures, or files."
    )
    test: Held = Field(0.0, description="Test set, the same way; evaluated once, after training.")
    judge_test: bool = Field(
        True, description="Evaluate the test set; false draws it but leaves it unseen, for runs that choose settings."
    )
    train_size: float | None = Field(None, description="Use only this fraction or count for training.")
    train_indices: str | None = Field(
        None,
        description="Index file (official splits) that picks the training set; FILE.json:train for one of several.",
    )
    valid_indices: str | None = Field(None, description="Index file that picks the validation set, the same way.")
    test_indices: str | None = Field(None, description="Index file that picks the test set, the same way.")
    split_seed: int = Field(0, description="Seed of the random split.")
    reference: References = Field(
        "auto",
        description="Isolated-atom energies (E0s): auto, isolated, least-squares, mean (the mean of the labels, "
        "subtracted from every structure) or none; a file with isolated atoms, or a .npz with eV by atomic number; or "
        "eV by chemical symbol. Also as E0s.",
    )
    config_type_weights: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {},
        description="Weights in the loss by label (see config_type), such as {IsolatedAtom: 0, slab: 2}; 1 for others.",
    )
    scale: Annotated[float, Field(gt=0)] | Literal["auto", "energy"] = Field(
        "auto",
        description="Energy that the model's numbers are in, eV; auto: the root mean square force in eV/Å; energy: the "
        "standard deviation of the energies beyond the isolated atoms.",
    )
    cache: str | None = Field(None, description="File that keeps neighbour lists between runs.")
    in_memory: bool | None = Field(
        None,
        description="Read the training set into memory; false reads each structure from disk when its batch needs it: "
        "shards of 'data convert', LMDB, HDF5, ASE databases. By default only shards of 50,000 structures or more stay "
        "on disk.",
    )

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, values: Any) -> Any:
        """E0s is the name that other packages have for the reference energies."""
        if not isinstance(values, dict) or "E0s" not in values:
            return values
        if "reference" in values:
            raise ValueError("E0s and reference are the same option and both are given; give one of them")
        return {("reference" if name == "E0s" else name): value for name, value in values.items()}


class OptimizerConfig(Options):
    """How weights are changed."""

    name: Literal["adam", "amsgrad", "adamw", "muon"] = Field(
        "muon", description="adam, amsgrad, adamw, or muon (orthogonalised momentum for matrices)."
    )
    learning_rate: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="Peak learning rate; auto: 5e-3, for fewer than 200 structures 20 over the number of steps if this "
        "is less.",
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="Decay of the moments.")
    weight_decay: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description="Decoupled weight decay (adamw, muon); auto: over the run, weights that no data hold up shrink by "
        "exp(-60 / sqrt(structures · atoms)) of the training set, at most 0.1.",
    )
    clip: float | None = Field(10.0, gt=0, description="Largest norm of the gradient; null for none.")


class ScheduleConfig(Options):
    """Learning rate over the run."""

    kind: Literal["cosine", "exponential", "plateau", "constant"] = Field("cosine", description="Shape.")
    warmup_steps: int = Field(100, ge=0, description="Steps over which the rate rises from zero.")
    warmup_share: float | None = Field(
        0.05, gt=0, le=1, description="Share of the run after which it has risen all the same; null for no such limit."
    )
    final: float = Field(0.005, ge=0, le=1, description="Last rate, cosine and exponential, as a share of the peak.")
    factor: float = Field(0.7, gt=0, lt=1, description="Plateau: what the rate is multiplied by.")
    patience: int = Field(10, ge=1, description="Plateau: validations without improvement before that.")

    @model_validator(mode="after")
    def _check(self) -> "ScheduleConfig":
        if self.kind == "exponential" and self.final == 0:
            raise ValueError("an exponential never gets to zero: set schedule.final above it")
        return self


class FineTuneConfig(Options):
    """Start from a trained model."""

    model: str = Field(description="Model file or name of a shipped model.")
    freeze: tuple[str, ...] = Field((), description="Parameters whose names contain one of these stay as they are.")
    new_references: bool = Field(
        True, description="Find isolated-atom energies anew from the data; false keeps the model's."
    )


class TrainConfig(Options):
    """A training run."""

    data: DataConfig
    model: dict[str, Any] = Field(
        {"preset": "default"},
        description="Preset and the options that differ from it, e.g. {preset: default, lmax: 3}. The cutoff of the "
        "default is 5 Å, but 4 Å for fewer than 200 structures that are single molecules each; if these have at most "
        "12 atoms, three layers instead of two.",
    )
    loss: LossConfig = Field(LossConfig(), description="Terms and weights.")
    optimizer: OptimizerConfig = Field(OptimizerConfig())
    schedule: ScheduleConfig = Field(ScheduleConfig())
    batch_size: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="Batch size in structures; auto: about 100 atoms, 300 if there are only energies to learn from, "
        "or 25 for fewer than 200 structures, and one of these if they are molecules of at most 12 atoms.",
    )
    max_atoms: int | None = Field(None, ge=1, description="Most atoms in a batch.")
    max_edges: int | None = Field(None, ge=1, description="Most directed edges in a batch.")
    budget: Duration | None = Field(None, gt=0, description="Training time, e.g. 20min; counts over restarts.")
    epochs: PositiveInt | Literal["auto"] | None = Field(
        "auto",
        description="Epochs; the first limit reached ends. auto: no limit, but 300 for fewer "
        "than 200 structures, where longer runs were worse.",
    )
    steps: PositiveInt | None = Field(None, description="Updates of the weights; the first limit reached ends.")
    cut_after: Duration | None = Field(
        None, gt=0, description="Training time after which the run ends where it is; the learning rate does not hurry."
    )
    patience: int | None = Field(None, ge=1, description="Stop after this many validations without improvement.")
    validate_every: PositiveInt | Literal["auto"] = Field("auto", description="Epochs between validations.")
    validate_steps: PositiveInt | None = Field(
        None, description="Validate every so many updates too, within long epochs."
    )
    checkpoint_minutes: float = Field(5.0, gt=0, description="Also save within long epochs, this often.")
    average: float = Field(0.995, ge=0, lt=1, description="Decay of the moving average of weights; 0 for none.")
    threads: PositiveInt | Literal["auto"] = Field(
        "auto", description="Processor threads at most; auto leaves it to PyTorch. Small batches use one anyway."
    )
    device: str = Field("auto", description="cpu, cuda, or auto: a GPU where there is one.")
    precision: Literal["float32", "float64"] = Field("float32", description="Of the model; data stay in float64.")
    seed: int = Field(0, description="Of initial weights and of the order of structures.")
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = Field(
        (), description="Also log to TensorBoard or Weights & Biases (offline unless WANDB_MODE is set); extras."
    )
    level_of_theory: str | None = Field(None, description="What made the labels; written into the model file.")
    finetune: FineTuneConfig | None = Field(None, description="Start from a trained model.")

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, values: Any) -> Any:
        """A model's name alone says what to fine-tune; E0s stands where other packages have it."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if isinstance(values.get("finetune"), str):
            values["finetune"] = {"model": values["finetune"]}
        if isinstance(values.get("loggers"), str):
            values["loggers"] = [values["loggers"]]
        if "E0s" in values and isinstance(values.get("data"), dict):
            values["data"] = {**values["data"], "E0s": values.pop("E0s")}
        return values

    @model_validator(mode="before")
    @classmethod
    def _default_length(cls, values: Any) -> Any:
        """A run needs an end; fifteen minutes if nothing is said."""
        if not isinstance(values, dict) or any(values.get(name) is not None for name in ("budget", "steps")):
            return values
        if values.get("epochs") in (None, "auto"):
            return {**values, "budget": 900.0}
        return values

    @model_validator(mode="after")
    def _check(self) -> "TrainConfig":
        if self.finetune is not None and self.model != {"preset": "default"}:
            raise ValueError("a fine-tuned model keeps its architecture: leave the model options out")
        return self


def option_paths() -> list[str]:
    """Every option of a run by its path, those of the default model included."""
    return [".".join(path) for path, _ in leaves(TrainConfig)] + model_paths()


def option_hint(name: str, beside: str = "") -> str:
    """End of an error about an option that does not exist."""
    return hint(name, option_paths(), beside)


def parse_train_config(values: dict[str, Any]) -> TrainConfig:
    """Validate a mapping.

    Raises:
        ConfigError: Names the first bad option by its full path, with the nearest valid name if it is misspelt, or
            ours if it is that of another package.
    """
    config = parse_options(TrainConfig, values, elsewhere=option_hint)
    if config.finetune is None:
        check_model_options(config.model)
    return config


def check_model_options(options: dict[str, Any]) -> None:
    """Refuse bad options of the model before any data are read."""
    rest = {name: value for name, value in options.items() if name not in ("preset", "elements")}
    try:
        preset(str(options.get("preset", "default")), **rest)
    except ConfigError as error:
        unknown = next((name for name in rest if f"no option 'model.{name}'" in str(error)), None)
        if unknown is None or "did you mean" in (better := option_hint(f"model.{unknown}")) or not better:
            raise
        raise ConfigError(f"there is no option 'model.{unknown}'{better}.") from None


def load_config(
    path: Path | None,
    overrides: list[str],
    base: dict[str, Any] | None = None,
    over: dict[str, Any] | None = None,
) -> TrainConfig:
    """Config from a YAML file and `key=value` overrides, later ones winning.

    Args:
        path: YAML file, or None.
        overrides: Such as `model.lmax=3` or `optimizer.learning_rate=1e-3`; values are YAML.
        base: Values that the file may replace.
        over: Values that replace those of the file, and that the overrides may replace.
    """
    values: dict[str, Any] = dict(base or {})
    if path is not None:
        try:
            loaded = load_yaml(path.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}; check the path.") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
        if not isinstance(loaded, dict):
            raise ConfigError(f"{path} must hold options as 'key: value' lines; 'train --show-config' prints them all.")
        values = merged(values, loaded)
    values = merged(values, over or {})
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator:
            raise ConfigError(f"'{override}' is not an override; write key=value, for example model.lmax=3.")
        values = merged(values, nested(key, text, is_text=True))
    return parse_train_config(values)


def load_run_config(directory: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Config of a run from its folder; what its version did not know yet is as it was then."""
    return load_config(directory / "config.yaml", list(overrides), base={"schedule": {"warmup_share": None}})


def _scalar(text: str) -> Any:
    try:
        value = load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"'{text}' is not a valid value; quote it or close its brackets.") from None
    if isinstance(value, dict) and not text.lstrip().startswith("{"):  # a colon in a name, as in qm9pack:
        return text
    if isinstance(value, str):  # YAML 1.1 takes 1e-3 for text
        try:
            return float(value)
        except ValueError:
            return value
    return value


def nested(path: str, value: Any, is_text: bool = False) -> dict[str, Any]:
    """A mapping with one option.

    Args:
        path: Such as `optimizer.learning_rate`.
        value: Of the option.
        is_text: The value is YAML, as typed.
    """
    found: Any = _scalar(value) if is_text else value
    for part in reversed(path.split(".")):
        found = {part: found}
    return dict(found)


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A mapping with the values of another, nested ones included."""
    result = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def to_yaml(config: TrainConfig) -> str:
    """The config as YAML, every option written out."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
