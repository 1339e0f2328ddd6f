"""How a benchmark trains its models. Three protocols, kept apart.

`sound` is our recipe for every model, with the learning rate that suits its family; `paper` what the paper states for
every model, `recommended` what the authors of each model use. All of them are options of `train`, so that a result's
config says everything.
"""

from typing import Any, Literal, get_args

from cliffordstf.bench.jobs.recommended_settings import family_of, recommended_options
from cliffordstf.errors import ConfigError
from cliffordstf.model.family import family_names
from cliffordstf.model.presets import PRESETS, preset
from cliffordstf.options.text import did_you_mean

Protocol = Literal["sound", "paper", "recommended"]

KCAL_PER_MOL = 0.0433641153
"""eV."""

SOUND_RATES: dict[str, float] = {
    "mace": 0.1,
    "nequip": 0.1,
    "ictp": 0.05,
}
"""Learning rates of families whose weights start with unit variance and want larger steps: those with the lowest
validation error in `bench rates` (docs/rates.md). The others have ours."""

SOUND_RATES_OF_SCALARS: dict[str, float] = {"mace": 0.02}
"""The same where a structure has one number and no forces: QM9 and Molecule3D; families that are not here have the rate
above, or ours."""

_SCALARS = ("qm9", "molecule3d")

_PAPER_OPTIMISER = (
    "optimizer.name=adam",
    "optimizer.learning_rate=1e-4",
    "optimizer.weight_decay=0",
    "optimizer.clip=null",
    "schedule.kind=constant",
    "schedule.warmup_steps=0",
    "average=0",
    "patience=30",
    "validate_every=1",
)

_CLIPPED = "optimizer.clip=10"
"""The paper clips gradients on QM9 and Molecule3D, and does not say where."""

_SQUARED = (
    "loss.energy.kind=mse",
    "loss.energy.weight=1",
    "loss.energy_per=structure",
    "loss.forces.kind=mse",
    "loss.forces.weight=1",
)

_RELAXED = ("loss.energy.kind=l1", "loss.energy.weight=1", "loss.energy_per=structure", "batch_size=16")
_FORCES = (
    "loss.energy.kind=l1",
    "loss.energy.weight=1",
    "loss.energy_per=atom",
    "loss.forces.kind=l2",
    "loss.forces.weight=3",
    "batch_size=16",
)

_PAPER: dict[str, tuple[str, ...]] = {
    # Absolute energies in kcal/mol, as the files hold them: no free atoms are taken off and nothing is scaled.
    "rmd17": (
        *_PAPER_OPTIMISER,
        *_SQUARED,
        "data.reference=none",
        f"data.scale={KCAL_PER_MOL}",
        "batch_size=32",
        "epochs=250",
    ),
    # Normalised targets: their mean is taken off, and the spread is the unit.
    "qm9": (
        *_PAPER_OPTIMISER,
        _CLIPPED,
        "data.reference=mean",
        "data.scale=energy",
        "loss.energy.kind=mse",
        "batch_size=128",
        "epochs=250",
    ),
    "oc20 is2re": (*_PAPER_OPTIMISER, *_RELAXED, "epochs=50"),
    "oc22 is2re": (*_PAPER_OPTIMISER, *_RELAXED, "epochs=150"),
    "oc20 s2ef": (*_PAPER_OPTIMISER, *_FORCES, "epochs=50"),
    "oc22 s2ef": (*_PAPER_OPTIMISER, *_FORCES, "epochs=50"),
    # The rate is multiplied by 0.8 after every tenth of the run; here it falls as far, without steps.
    "molecule3d": (
        *_PAPER_OPTIMISER,
        _CLIPPED,
        "schedule.kind=exponential",
        "schedule.final=0.107",
        "loss.energy.kind=l1",
        "batch_size=20",
        "epochs=100",
    ),
}


def protocol_options(protocol: str, benchmark: str, model: str) -> tuple[str, ...]:
    """Options of `train` for a protocol; `sound` is what `train` does by itself, at most with another learning rate.

    Args:
        protocol: `sound`, `paper` or `recommended`.
        benchmark: Such as `rmd17`, or with its task `oc20 s2ef`.
        model: Preset; `recommended` differs by its family.

    Raises:
        ConfigError: There is no such protocol, or nothing is known that the model's authors recommend.
    """
    known = get_args(Protocol)
    if protocol not in known:
        raise ConfigError(
            f"there is no protocol '{protocol}'{did_you_mean(protocol, known)}; choose sound, paper or recommended."
        )
    if protocol == "recommended":
        return recommended_options(benchmark, model)
    if protocol == "paper":
        _check_paper_settings(benchmark, model)
        return _PAPER[benchmark]
    rate = sound_rate(model, benchmark)
    return () if rate is None else (f"optimizer.learning_rate={rate:g}",)


def _check_paper_settings(benchmark: str, model: str) -> None:
    """Numbers beside the paper's should be of its architectures too."""
    table = {"rmd17": "-md17", "qm9": "-qm9", "molecule3d": "-qm9"}.get(benchmark, "-oc")
    plain = next((model.removesuffix(end) for end in ("-md17", "-qm9", "-oc") if model.endswith(end)), model)
    theirs = f"{plain}{table}"
    is_known = theirs in family_names() or theirs in PRESETS
    if is_known and _architecture(theirs) != _architecture(model):
        raise ConfigError(
            f"--protocol paper trains as the paper does, and '{model}' has other settings than the paper's for this "
            f"benchmark; these are those of '{theirs}'."
        )


def _architecture(model: str) -> dict[str, Any]:
    return preset(model, elements=(1,)).model_dump(exclude={"name"})


def sound_rate(model: str, benchmark: str) -> float | None:
    """Learning rate of a peer in `sound`; None where it is that of `train` itself."""
    rates = {**SOUND_RATES, **(SOUND_RATES_OF_SCALARS if benchmark in _SCALARS else {})}
    family = family_of(model, rates)
    return None if family is None else rates[family]


def recipe_name(protocol: str, model: str, label: str | None = None) -> str:
    """What tables call a run: the label, or else the model, and the protocol unless it is `sound`.

    Tables put runs of one name together, so the protocol has to be part of it.
    """
    name = label or model
    return name if protocol == "sound" else f"{name} {protocol}"
