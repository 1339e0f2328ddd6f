"""What the authors of each family train it with, translated into options of `train`.

Every setting stands where `Settings.source` says. What `train` has no word for, and what was therefore left out or
translated, is listed in docs/bench.md; families and benchmarks without a published setting are not here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cliffordstf.data.units import ENERGY_UNITS
from cliffordstf.errors import ConfigError
from cliffordstf.model.presets import PRESETS


@dataclass(frozen=True)
class Settings:
    """How a family is trained on a benchmark.

    Attributes:
        source: Package or repository, and the file in it that states the settings.
        options: Of `train`.
    """

    source: str
    options: tuple[str, ...]


def recommended_options(benchmark: str, model: str) -> tuple[str, ...]:
    """Options of `train` that the authors of a model recommend; none for our own recommended model.

    Args:
        benchmark: Such as `rmd17`, or with its task `oc20 s2ef`.
        model: Preset, whose name begins with that of its family.

    Raises:
        ConfigError: The authors published no settings for the benchmark, or none at all that are known here.
    """
    if model in PRESETS:
        if PRESETS[model]["profile"] == "default":
            return ()  # what `train` does by itself is our own recommendation
        raise ConfigError(f"what '{model}' is trained with is stated in its paper; use --protocol paper.")
    family = family_of(model, RECOMMENDED)
    if family is None:
        raise ConfigError(f"no settings by the authors of '{model}' are known here; use --protocol sound or paper.")
    known = RECOMMENDED[family]
    if benchmark not in known:
        raise ConfigError(
            f"no settings by the authors of '{model}' for {benchmark} are known here, only for {' and '.join(known)}; "
            "use --protocol sound or paper."
        )
    return known[benchmark].options


def family_of(model: str, families: Iterable[str]) -> str | None:
    """The one of some families that a peer belongs to; None if it is none of them."""
    return next((name for name in families if model == name or model.startswith(f"{name}-")), None)


def _optimiser(
    name: Literal["adamw", "amsgrad"], rate: float, *, decay: float = 0.0, clip: float | None = None
) -> tuple[str, ...]:
    return (
        f"optimizer.name={name}",
        f"optimizer.learning_rate={rate}",
        f"optimizer.weight_decay={decay}",
        f"optimizer.clip={_value(clip)}",
    )


def _plateau(factor: float, patience: int, *, warmup: int = 0) -> tuple[str, ...]:
    """The rate falls by a factor after so many passes without progress."""
    return (
        "schedule.kind=plateau",
        f"schedule.factor={factor}",
        f"schedule.patience={patience}",
        *_warmup(warmup),
    )


def _warmup(steps: int) -> tuple[str, ...]:
    return (f"schedule.warmup_steps={steps}", "schedule.warmup_share=null")


def _falling(kind: Literal["cosine", "exponential"], final: float, *, warmup: int) -> tuple[str, ...]:
    return (f"schedule.kind={kind}", f"schedule.final={final}", *_warmup(warmup))


def _run(*, batch: int, epochs: int, stop: int | None = None, average: float = 0.0) -> tuple[str, ...]:
    """Structures a step, most passes, passes without progress before the end, decay of the average of weights."""
    return (
        f"batch_size={batch}",
        f"epochs={epochs}",
        f"patience={_value(stop)}",
        f"average={average}",
        "validate_every=1",  # patience counts validations
    )


def _squares(
    energy: float, forces: float, *, per: Literal["structure", "atom"] = "structure", scale: float | str = "auto"
) -> tuple[str, ...]:
    """Squared errors; the scale is the energy that the model's numbers are in."""
    return (
        "loss.energy.kind=mse",
        f"loss.energy.weight={energy}",
        f"loss.energy_per={per}",
        "loss.forces.kind=mse",
        f"loss.forces.weight={forces}",
        f"data.scale={scale}",
    )


def _one_number(kind: Literal["mse", "l1"], scale: float | str = 1.0) -> tuple[str, ...]:
    """A target without forces; by default the model's numbers are in eV, or in the target's own unit."""
    return (f"loss.energy.kind={kind}", "loss.energy.weight=1", "loss.energy_per=structure", f"data.scale={scale}")


def _value(value: float | None) -> str:
    return "null" if value is None else str(value)


_SCHNETPACK = {
    "rmd17": Settings(
        "schnetpack 2.1.1, configs/experiment/rmd17.yaml",
        (
            *_optimiser("adamw", 1e-3),
            *_plateau(0.5, 75),
            *_run(batch=10, epochs=100_000, stop=200, average=0.995),
            *_squares(0.01, 0.99, scale=ENERGY_UNITS["kcal/mol"]),
        ),
    ),
    "qm9": Settings(
        "schnetpack 2.1.1, configs/experiment/qm9_atomwise.yaml",
        (
            *_optimiser("adamw", 5e-4),
            *_plateau(0.5, 75),
            *_run(batch=100, epochs=100_000, stop=200, average=0.995),
            *_one_number("mse"),
        ),
    ),
}

RECOMMENDED: dict[str, dict[str, Settings]] = {
    "mace": {
        "rmd17": Settings(
            "mace-torch 0.3.16, README.md (Training) and defaults of mace/tools/arg_parser.py",
            (
                *_optimiser("amsgrad", 0.01, clip=10.0),
                *_plateau(0.8, 50),
                *_run(batch=10, epochs=1500, average=0.99),
                *_squares(1, 100, per="atom"),
            ),
        ),
    },
    "nequip": {
        "rmd17": Settings(
            "mir-group/nequip-input-files, revmd17/revmd17-aspirin-n950-l1.yaml",
            (
                *_optimiser("amsgrad", 0.01),
                *_plateau(0.8, 50),
                *_run(batch=5, epochs=1_000_000, stop=1000, average=0.99),
                *_squares(1, 1000),
            ),
        ),
    },
    "schnet": _SCHNETPACK,
    "painn": _SCHNETPACK,
    # TorchMD-NET and ViSNet smooth the energy loss over steps: a step's own loss, and with it its gradient, counts
    # `ema_alpha_y` (ViSNet: `loss_scale_y`) times the energy weight.
    "torchmd-et": {
        "rmd17": Settings(
            "torchmd/torchmd-net, examples/ET-MD17.yaml",
            (
                *_optimiser("adamw", 1e-3),
                *_plateau(0.8, 30, warmup=1000),
                *_run(batch=8, epochs=3000, stop=300),
                *_squares(0.01, 0.8, scale="energy"),  # 0.05 · 0.2
            ),
        ),
        "qm9": Settings(
            "torchmd/torchmd-net, examples/ET-QM9.yaml",
            (
                *_optimiser("adamw", 4e-4),
                *_plateau(0.8, 15, warmup=10_000),
                *_run(batch=128, epochs=3000, stop=150),
                *_one_number("mse"),
            ),
        ),
    },
    "tensornet": {
        "rmd17": Settings(
            "torchmd/torchmd-net, examples/TensorNet-rMD17.yaml",
            (
                *_optimiser("adamw", 1e-3, clip=40.0),
                *_plateau(0.8, 25, warmup=500),
                *_run(batch=8, epochs=10_000, stop=300),
                *_squares(0.005, 0.5, scale="energy"),  # 0.01 · 0.5
            ),
        ),
        "qm9": Settings(
            "torchmd/torchmd-net, examples/TensorNet-QM9.yaml",
            (
                *_optimiser("adamw", 1e-4, clip=40.0),
                *_plateau(0.8, 15, warmup=1000),
                *_run(batch=16, epochs=3000, stop=150),
                *_one_number("mse"),
            ),
        ),
    },
    "visnet": {
        "rmd17": Settings(
            "microsoft/AI2BMD, examples/ViSNet-rMD17.yml",
            (
                *_optimiser("adamw", 2e-4),
                *_plateau(0.8, 30, warmup=1000),
                *_run(batch=4, epochs=3000, stop=600),
                *_squares(0.0025, 0.95, scale="energy"),  # 0.05 · 0.05
            ),
        ),
        "qm9": Settings(
            "microsoft/AI2BMD, examples/ViSNet-QM9.yml",
            (
                *_optimiser("adamw", 1e-4),
                *_plateau(0.8, 15, warmup=10_000),
                *_run(batch=32, epochs=1000, stop=150),
                *_one_number("mse"),
            ),
        ),
        "molecule3d": Settings(
            "microsoft/AI2BMD, examples/ViSNet-Molecule3D.yml",
            (
                *_optimiser("adamw", 2e-4),
                *_plateau(0.8, 5, warmup=5000),
                *_run(batch=512, epochs=300, stop=30),  # 32 on each of 16 GPUs
                *_one_number("l1", scale="energy"),
            ),
        ),
    },
    "dimenet++": {
        "qm9": Settings(
            "gasteigerjo/dimenet, config_pp.yaml and dimenet/training/trainer.py",
            (
                *_optimiser("amsgrad", 1e-3, clip=10.0),
                *_falling("exponential", 0.0316, warmup=3000),  # 0.01 ^ (3 / 4): 3 of 4 million steps
                *_run(batch=32, epochs=873, average=0.999),  # 3 million steps with 110,000 molecules
                *_one_number("l1"),
            ),
        ),
    },
    "gotennet": {
        "qm9": Settings(
            "gotennet 1.1.2, configs/experiment/qm9.yaml",
            (
                *_optimiser("adamw", 1e-4, clip=5.0),
                *_plateau(0.8, 15, warmup=10_000),
                *_run(batch=32, epochs=1000, stop=150),
                *_one_number("mse"),
            ),
        ),
    },
    "faenet": {
        "qm9": Settings(
            "vict0rsch/faenet, configs-faenet/qm9.yaml, and RolnickLab/ocp, configs/models/tasks/qm9.yaml",
            (
                *_optimiser("adamw", 1e-3, decay=0.01),  # PyTorch's default, since the files say nothing
                *_plateau(0.9, 15, warmup=3000),
                *_run(batch=64, epochs=1500, average=0.999),
                *_one_number("mse", scale="energy"),
            ),
        ),
    },
    "equiformer": {
        "oc20 s2ef": Settings(
            "atomicarchitects/equiformer_v2, oc20/configs/s2ef/2M/equiformer_v2/equiformer_v2_N@12_L@6_M@2.yml",
            (
                *_optimiser("adamw", 2e-4, decay=1e-3, clip=100.0),
                *_falling("cosine", 0.01, warmup=3125),  # a tenth of a pass over two million structures
                *_run(batch=64, epochs=12, average=0.999),  # 4 on each of 16 GPUs, as the authors say in issue 26
                "loss.energy.kind=l1",
                "loss.energy.weight=2",
                "loss.energy_per=structure",
                "loss.forces.kind=l2",
                "loss.forces.weight=100",
                "data.scale=2.887317180633545",
            ),
        ),
    },
}
"""Settings by family, as presets' names begin, and by benchmark."""
