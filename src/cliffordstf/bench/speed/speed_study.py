"""`bench speed`: inference, training, latency, large boxes and the roofline, ours and peers side by side in one run."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from cliffordstf.bench.speed import per_core, periodic_boxes
from cliffordstf.bench.speed.contenders import LITERAL, OURS, Contender, chosen, literal, ours, peers
from cliffordstf.bench.speed.limits.machine_peaks import Machine, measure_machine, share_text
from cliffordstf.bench.speed.limits.profile import profile
from cliffordstf.bench.speed.limits.roofline import edge_operator
from cliffordstf.bench.speed.peak_memory import peak_memory
from cliffordstf.bench.speed.systems import aspirin
from cliffordstf.bench.speed.timing import Measured, Rounds, Timing, interleaved, ratio
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import kernel_name
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.presets import preset
from cliffordstf.train.provenance import describe_run

MOLECULES = 32
BOXES = (100, 1_000, 10_000, 100_000)
FLAGSHIP = "default lmax 3"
SHARES = {"inference": 1.0, "training": 2.0, "latency": 0.5}
"""Of the time for the rounds, by kind of measurement."""
QUICK = 180.0
"""Seconds for the rounds of a quick run. Loading and building the peers before them, and memory, boxes, roofline and
profile after them, take the rest of eight minutes."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class SpeedSettings:
    """How long to measure.

    Attributes:
        repetitions: Rounds of interleaved measurements.
        limit: Seconds per contender and kind of measurement.
        minimum: Rounds that count of every contender that takes part; never fewer than three.
        warm_up: Seconds after which a contender is called warm even if its last two calls do not agree.
        boxes: Sizes of the periodic box, atoms.
        with_peers: Whether installed peers take part.
        budget: Seconds for all rounds, warm-up included; contenders whose minimum of rounds does not fit are left
            out. None for no limit.
        turn: Seconds for which a contender is called again when it is its turn.
        models: Presets that take part instead of those that do otherwise; None for these.
        per_core: Systems and sizes of the rows per atom and core, see `per_core.SIZES`.
    """

    repetitions: int = 15
    limit: float = 60.0
    minimum: int = 3
    warm_up: float = 30.0
    boxes: tuple[int, ...] = BOXES
    with_peers: bool = True
    budget: float | None = None
    turn: float = 1.5
    models: tuple[str, ...] | None = None
    per_core: tuple[tuple[str, int], ...] = per_core.SIZES

    @classmethod
    def quick(cls) -> "SpeedSettings":
        """Within eight minutes on two cores, also when these are slow: then with fewer rounds."""
        return cls(repetitions=5, limit=2.0, warm_up=10.0, budget=QUICK, boxes=BOXES[:3], turn=0.5)


def run_speed(settings: SpeedSettings, say: Say) -> dict[str, Any]:
    """Everything, as a mapping for a JSON file."""
    started = time.perf_counter()
    for name in settings.models or ():
        preset(name)  # so that a misspelt name is told before anything is measured
    machine = measure_machine()
    say(f"machine: {machine.gflops:.0f} GFLOP/s ({machine.arithmetic}), {machine.bandwidth:.1f} GB/s in a large copy")
    contenders, missing = _contenders(settings)
    say(f"{len(contenders)} contenders; not installed: {', '.join(missing) or 'none'}")
    rounds_started = time.perf_counter()
    measured = _measure(contenders, settings, say)
    rounds = describe_rounds(measured, settings.budget, time.perf_counter() - rounds_started)
    timings = {kind: found.timings for kind, found in measured.items()}
    rows = [_row(contender, timings) for contender in contenders]
    results = {
        **describe_run(),
        "kernels": kernel_name(),
        "settings": asdict(settings),
        "units": {"time": "ms", "memory": "MB", "box time": "µs/atom", "box memory": "kB/atom"},
        "system": f"aspirin x {MOLECULES}, float32, seed 0; latency: one aspirin",
        "peers_not_installed": missing,
        "rounds": rounds,
        "rows": rows,
        "ratios": _ratios(timings, _pairs(contenders, settings)),
        "boxes": periodic_boxes.measure_boxes(settings.boxes, _box_models(settings), settings.limit, say),
        **_per_core(settings, say),
        "roofline": _roofline(machine, contenders, say),
        "profile": _profile(contenders, say),
    }
    return {**results, "seconds": round(time.perf_counter() - started, 1)}


def _contenders(settings: SpeedSettings) -> tuple[list[Contender], dict[str, str]]:
    """Who takes part, and why those who should and cannot do not."""
    if settings.models is not None:
        found, missing = chosen(settings.models)
        if not found:
            raise ConfigError(next(iter(missing.values())))
        return found, missing
    reference = literal()
    found, missing = peers() if settings.with_peers else ([], {})
    return [*ours(), *([reference] if reference else []), *found], missing


def _box_models(settings: SpeedSettings) -> tuple[str, ...]:
    """Of whose boxes there may be rows."""
    if settings.models is not None:
        return settings.models
    return (periodic_boxes.OURS, periodic_boxes.PEER) if settings.with_peers else (periodic_boxes.OURS,)


def _per_core(settings: SpeedSettings, say: Say) -> dict[str, Any]:
    """Rows of time per atom and core, and why a model has none."""
    known = (*per_core.MODELS, *([per_core.SYMMETRIX] if settings.with_peers else []))
    names = [name for name in known if settings.models is None or name in settings.models]
    rows, missing = per_core.measure_per_core(names, settings.per_core, settings.limit, say)
    for reason in missing.values():
        say(f"left out: {reason}")
    return {"per_core": rows, "per_core_missing": missing}


def _measure(contenders: list[Contender], settings: SpeedSettings, say: Say) -> dict[str, Measured]:
    """Timings by kind.

    Raises:
        ConfigError: The budget leaves no contender for a kind.
    """
    end = math.inf if settings.budget is None else time.perf_counter() + settings.budget
    structures = [aspirin(seed) for seed in range(MOLECULES)]
    batches = {contender.name: contender.potential.batch(structures) for contender in contenders}
    kinds: dict[str, dict[str, Callable[[], object]]] = {
        "inference": {c.name: c.inference(batches[c.name]) for c in contenders},
        "training": {c.name: c.training(batches[c.name]) for c in contenders},
        "latency": {c.name: c.molecule(structures[0]) for c in contenders},
    }
    measured = {}
    for kind, actions in kinds.items():
        say(f"{kind} …")
        many = kind == "latency"
        rounds = Rounds(
            repetitions=settings.repetitions * (5 if many else 1),
            limit=settings.limit,
            minimum=settings.minimum,
            warm_up=settings.warm_up,
            deadline=share_of_time(kind, end - time.perf_counter()),
            turn=settings.turn * (0.1 if many else 1),
        )
        measured[kind] = interleaved(actions, rounds)
        for name, timing in measured[kind].timings.items():
            say(f"  {name:24s} {timing.median * 1e3:10.1f} ms")
        for name, reason in measured[kind].left_out.items():
            say(f"  {name} is left out of {kind}: {reason}")
        if not measured[kind].timings:
            raise ConfigError(
                f"--budget: {settings.budget:g} s are too short to time {kind} of any contender {settings.minimum} "
                "times; give more time, or name fewer contenders with --models."
            )
    return measured


def share_of_time(kind: str, left: float) -> float:
    """Seconds for a kind of measurement of those that are left for it and the kinds after it."""
    kinds = list(SHARES)
    return left * SHARES[kind] / sum(SHARES[later] for later in kinds[kinds.index(kind) :])


def describe_rounds(measured: dict[str, Measured], budget: float | None, seconds: float) -> dict[str, Any]:
    """Budget, time, the fewest and the most rounds that a contender had of each kind, and who had none."""
    counts = {kind: [len(timing.seconds) for timing in found.timings.values()] for kind, found in measured.items()}
    left_out = {kind: found.left_out for kind, found in measured.items() if found.left_out}
    return {
        "budget_s": budget,
        "seconds": round(seconds, 1),
        "is_budget_too_short": bool(left_out),
        "left_out": left_out,
        "done": {kind: [min(numbers), max(numbers)] for kind, numbers in counts.items()},
    }


def _row(contender: Contender, timings: dict[str, dict[str, Timing]]) -> dict[str, Any]:
    structures = [aspirin(seed) for seed in range(MOLECULES)]
    row: dict[str, Any] = {"name": contender.name, "parameters": contender.parameters}
    for kind, by_name in timings.items():
        timing = by_name.get(contender.name)
        if timing is None:
            row |= {f"{kind}_ms": None, f"{kind}_quartiles_ms": None, f"{kind}_rounds": 0}
            continue
        row[f"{kind}_ms"] = timing.median * 1e3
        row[f"{kind}_quartiles_ms"] = [value * 1e3 for value in timing.quartiles]
        row[f"{kind}_rounds"] = len(timing.seconds)
    contender.potential.release()
    is_trained = contender.name in timings["training"]
    training = contender.training(contender.potential.batch(structures)) if is_trained else None
    row["training_peak_mb"] = None if training is None else peak_memory(training)
    return row


def _pairs(contenders: list[Contender], settings: SpeedSettings) -> list[tuple[str, str]]:
    """Whose time is divided by whose: ours by each peer's, or that of a chosen model by those named after it."""
    names = [contender.name for contender in contenders]
    if settings.models is not None:
        return list(combinations(names, 2))
    peer_names = [name for name in names if name not in OURS and name != LITERAL]
    return [(f"default lmax {lmax}", peer) for peer in peer_names for lmax in (1, 2, 3, 4)]


def ratio_name(mine: str, kind: str, other: str) -> str:
    """What the ratio of two times is called in the results."""
    return f"{mine.replace(' lmax ', '_lmax')}_{kind}_time_over_{other}"


def _ratios(timings: dict[str, dict[str, Timing]], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    ratios: dict[str, Any] = {}
    spreads: dict[str, Any] = {}

    def add(name: str, a: Timing, b: Timing) -> None:
        spreads[name] = ratio(a, b)
        ratios[name] = spreads[name]["median"]

    for kind in ("inference", "training"):
        if {LITERAL, "paper/full"} <= timings[kind].keys():
            speedup = f"paper_full_{kind}_speedup_over_literal"
            add(speedup, timings[kind][LITERAL], timings[kind]["paper/full"])
    for mine, other in pairs:
        for kind, by_name in timings.items():
            if {mine, other} <= by_name.keys():
                add(ratio_name(mine, kind, other), by_name[mine], by_name[other])
    return {**ratios, "spread": spreads}


def _flagship(contenders: list[Contender]) -> Contender | None:
    """Whose edge operator and profile are shown: `FLAGSHIP` or the first of our default models; None without any."""
    candidates = [contender for contender in contenders if isinstance(contender.potential.model, DefaultModel)]
    first = candidates[0] if candidates else None
    return next((contender for contender in candidates if contender.name == FLAGSHIP), first)


def _roofline(machine: Machine, contenders: list[Contender], say: Say) -> dict[str, Any]:
    flagship = _flagship(contenders)
    if flagship is None:
        return {"machine": asdict(machine)}
    batch = flagship.potential.batch([aspirin(seed) for seed in range(MOLECULES)])
    machine = machine.at_least(measure_machine())  # the first one may have met a busy moment
    reached = edge_operator(flagship.potential, batch, machine)
    for name, values in reached.items():
        rate = values["gflop"] / values["seconds"]
        say(f"edge operator, {name}: {rate:.0f} GFLOP/s, share of the roofline: {share_text(values['share'])}")
    return {"machine": asdict(machine), "edge_operator": {"model": flagship.name, **reached}}


def _profile(contenders: list[Contender], say: Say) -> dict[str, Any] | None:
    flagship = _flagship(contenders)
    if flagship is None:
        return None
    parts = profile(flagship, flagship.potential.batch([aspirin(seed) for seed in range(MOLECULES)]))
    for kind, shares in parts.items():
        listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items() if name != "milliseconds")
        say(f"{kind}: {listed}")
    return {"model": flagship.name, **parts}
