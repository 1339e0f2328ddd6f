"""The two sizes of a family timed side by side: of runs one after the other, noise makes the ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cliffordstf.bench.jobs.sweep import file_name
from cliffordstf.bench.speed.timing import Action, Rounds, Timing, interleaved, ratio
from cliffordstf.bench.studies.scaling import FAMILIES, scaling_job
from cliffordstf.data.dataset import shuffled
from cliffordstf.train.config import TrainConfig
from cliffordstf.train.loop import Trainer
from cliffordstf.train.progress import Hooks
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher
from cliffordstf.train.setup import prepare

PARTS = ("step", "gradient")
"""A whole update; and without its optimiser, whose cost does not depend on the number of structures."""


@dataclass(frozen=True)
class ScalingTiming:
    """Updates of the small and the large model of a family in turn, on one batch.

    Attributes:
        name: Names its result; safe for a file name.
        labels: What it is a result of.
        small, large: The runs whose updates are timed.
        rounds: How often.
        limit: Seconds; a model that has used this much for one part stops taking part after five rounds.
    """

    name: str
    labels: dict[str, Any]
    small: TrainConfig
    large: TrainConfig
    rounds: int = 15
    limit: float = 60.0

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - nothing to watch
        """Time them; a signal ends the process, and the next one begins again."""
        trainers = {
            size: _trainer(config, directory) for size, config in (("small", self.small), ("large", self.large))
        }
        actions: dict[str, Action] = {}
        for size, trainer in trainers.items():
            actions |= {f"{size} {part}": action for part, action in zip(PARTS, _parts(trainer), strict=True)}
        timings = interleaved(actions, Rounds(self.rounds, self.limit, minimum=5, warm_up=self.limit / 2)).timings
        origin = describe_run()
        return {
            "seed": self.small.seed,
            **{name: origin[name] for name in ("command", "commit", "date", "machine")},
            "units": {"seconds": "s"},
            "structures_a_step": [trainer.plan.size for trainer in trainers.values()],
            "parameters": [sum(p.numel() for p in t.potential.parameters()) for t in trainers.values()],
            "seconds": {name: _numbers(timing) for name, timing in timings.items()},
            "ratios": {part: ratio(timings[f"large {part}"], timings[f"small {part}"]) for part in PARTS},
        }


def scaling_timing(
    data: str, family: str, *, seed: int = 0, overrides: Sequence[str] = (), label: str | None = None
) -> ScalingTiming:
    """The two models of a family; arguments as those of `scaling_job`."""
    small, large = (
        scaling_job(data, seed=seed, model=model, overrides=overrides, label=label) for model in FAMILIES[family]
    )
    labels = {
        "benchmark": "scaling",
        "kind": "timing",
        "frames": Path(data).name,
        "family": family,
        "models": list(FAMILIES[family]),
        "small": small.labels["recipe"],
        "large": large.labels["recipe"],
        "overrides": list(overrides),
    }
    recipe = family if label is None else f"{family} {label}"
    return ScalingTiming(
        f"scaling-{file_name(Path(data).stem)}-time-of-{file_name(recipe)}", labels, small.config, large.config
    )


def _trainer(config: TrainConfig, directory: Path) -> Trainer:
    """Ready for its first update; it tells nobody anything and writes nothing."""
    setup = prepare(config)
    return Trainer(
        setup.potential,
        setup.train,
        setup.valid,
        setup.plan,
        config,
        setup.baseline,
        directory / "last.ckpt",
        Hooks(step=lambda *_: None, validated=lambda _: None, best=lambda: None),
    )


def _parts(trainer: Trainer) -> tuple[Action, Action]:
    """An update by the first batch, and its gradient alone."""
    order = shuffled(len(trainer.train), trainer.config.seed, 0)
    indices = trainer.plan.split(trainer.train, order)[0]
    return lambda: trainer.update(indices), lambda: trainer.gradient(indices)


def _numbers(timing: Timing) -> dict[str, Any]:
    return {"median": timing.median, "quartiles": list(timing.quartiles), "rounds": len(timing.seconds)}
