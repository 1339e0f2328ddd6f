"""`bench speed`: inference, training, latency, large boxes and the roofline, ours and peers side by side in one run."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from cliffordstf.bench.boxes import measure_boxes
from cliffordstf.bench.contenders import LITERAL, Contender, literal, ours, peers
from cliffordstf.bench.profile import profile
from cliffordstf.bench.roofline import edge_operator, measure_machine
from cliffordstf.bench.systems import aspirin
from cliffordstf.bench.timing import Timing, interleaved, peak_memory, ratio
from cliffordstf.kernels import kernel_name
from cliffordstf.model.training import forget
from cliffordstf.provenance import describe_run

MOLECULES = 32
BOXES = (100, 1_000, 10_000, 100_000)
FLAGSHIP = "default lmax 3"
SHARES = {"inference": 1.0, "training": 2.0, "latency": 0.5}
"""Of the time for the rounds, by kind of measurement."""
AFTER = 200.0
"""Seconds kept free for what follows the rounds: memory, boxes, roofline, profile."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class SpeedSettings:
    """How long to measure.

    Attributes:
        repetitions: Rounds of interleaved measurements.
        limit: Seconds per contender and kind of measurement.
        minimum: Rounds that also the slowest contenders run.
        boxes: Sizes of the periodic box, atoms.
        with_peers: Whether installed peers take part.
        total: Seconds for the whole run; when they run short, fewer rounds are made. None for no limit.
        turn: Seconds for which a contender is called again when it is its turn.
    """

    repetitions: int = 15
    limit: float = 60.0
    minimum: int = 3
    boxes: tuple[int, ...] = BOXES
    with_peers: bool = True
    total: float | None = None
    turn: float = 1.5

    @classmethod
    def quick(cls) -> "SpeedSettings":
        """Within eight minutes on two cores, also when these are slow: then with fewer rounds."""
        return cls(repetitions=5, limit=2.0, minimum=2, total=470.0, boxes=BOXES[:3], turn=0.5)


def run_speed(settings: SpeedSettings, say: Say) -> dict[str, Any]:
    """Everything, as a mapping for a JSON file."""
    started = time.perf_counter()
    machine = measure_machine()
    say(f"machine: {machine.gflops:.0f} GFLOP/s in a matrix product, {machine.bandwidth:.1f} GB/s in a copy")
    reference = literal()
    found, missing = peers() if settings.with_peers else ([], {})
    contenders = [*ours(), *([reference] if reference else []), *found]
    say(f"{len(contenders)} contenders; not installed: {', '.join(missing) or 'none'}")
    end = math.inf if settings.total is None else started + settings.total - AFTER
    timings = _measure(contenders, settings, end, say)
    rows = [_row(contender, timings) for contender in contenders]
    results = {
        **describe_run(),
        "kernels": kernel_name(),
        "settings": asdict(settings),
        "units": {"time": "ms", "memory": "MB", "box time": "µs/atom", "box memory": "kB/atom"},
        "system": f"aspirin x {MOLECULES}, float32, seed 0; latency: one aspirin",
        "peers_not_installed": missing,
        "rows": rows,
        "ratios": _ratios(timings, [contender.name for contender in found], reference is not None),
        "boxes": measure_boxes(settings.boxes, settings.with_peers, settings.limit, say),
        "roofline": _roofline(machine, contenders, say),
        "profile": _profile(contenders, say),
    }
    return {**results, "seconds": round(time.perf_counter() - started, 1)}


def _measure(
    contenders: list[Contender], settings: SpeedSettings, end: float, say: Say
) -> dict[str, dict[str, Timing]]:
    structures = [aspirin(seed) for seed in range(MOLECULES)]
    batches = {contender.name: contender.potential.batch(structures) for contender in contenders}
    kinds: dict[str, dict[str, Callable[[], object]]] = {
        "inference": {c.name: c.inference(batches[c.name]) for c in contenders},
        "training": {c.name: c.training(batches[c.name]) for c in contenders},
        "latency": {c.name: c.molecule(structures[0]) for c in contenders},
    }
    timings = {}
    for kind, actions in kinds.items():
        say(f"{kind} …")
        # Peers that use TorchScript optimise themselves during their first calls.
        many = kind == "latency"
        repetitions, turn = settings.repetitions * (5 if many else 1), settings.turn * (0.1 if many else 1)
        deadline = share_of_time(kind, end - time.perf_counter())
        timings[kind] = interleaved(actions, repetitions, 4, settings.limit, settings.minimum, deadline, turn)
        for name, timing in timings[kind].items():
            say(f"  {name:24s} {timing.median * 1e3:10.1f} ms")
    return timings


def share_of_time(kind: str, left: float) -> float:
    """Seconds for a kind of measurement of those that are left for it and the kinds after it."""
    kinds = list(SHARES)
    return left * SHARES[kind] / sum(SHARES[later] for later in kinds[kinds.index(kind) :])


def _row(contender: Contender, timings: dict[str, dict[str, Timing]]) -> dict[str, Any]:
    structures = [aspirin(seed) for seed in range(MOLECULES)]
    row: dict[str, Any] = {"name": contender.name, "parameters": contender.parameters}
    for kind, by_name in timings.items():
        timing = by_name[contender.name]
        row[f"{kind}_ms"] = timing.median * 1e3
        row[f"{kind}_quartiles_ms"] = [value * 1e3 for value in timing.quartiles]
    forget(contender.potential.model)
    row["training_peak_mb"] = peak_memory(contender.training(contender.potential.batch(structures)))
    return row


def _ratios(timings: dict[str, dict[str, Timing]], peer_names: list[str], with_literal: bool) -> dict[str, Any]:
    ratios: dict[str, Any] = {}
    spreads: dict[str, Any] = {}

    def add(name: str, a: Timing, b: Timing) -> None:
        spreads[name] = ratio(a, b)
        ratios[name] = spreads[name]["median"]

    for kind in ("inference", "training"):
        if with_literal:
            speedup = f"paper_full_{kind}_speedup_over_literal"
            add(speedup, timings[kind][LITERAL], timings[kind]["paper/full"])
    for peer in peer_names:
        for kind, by_name in timings.items():
            for lmax in (1, 2, 3, 4):
                mine = by_name[f"default lmax {lmax}"]
                add(f"default_lmax{lmax}_{kind}_time_over_{peer}", mine, by_name[peer])
    return {**ratios, "spread": spreads}


def _roofline(machine: Any, contenders: list[Contender], say: Say) -> dict[str, Any]:
    flagship = next(contender for contender in contenders if contender.name == FLAGSHIP)
    batch = flagship.potential.batch([aspirin(seed) for seed in range(MOLECULES)])
    reached = edge_operator(flagship.potential, batch, machine)
    for name, values in reached.items():
        rate = values["gflop"] / values["seconds"]
        say(f"edge operator, {name}: {rate:.0f} GFLOP/s, {100 * values['share']:.0f} % of the roofline")
    return {"machine": asdict(machine), "edge_operator": {"model": FLAGSHIP, **reached}}


def _profile(contenders: list[Contender], say: Say) -> dict[str, Any]:
    flagship = next(contender for contender in contenders if contender.name == FLAGSHIP)
    parts = profile(flagship, flagship.potential.batch([aspirin(seed) for seed in range(MOLECULES)]))
    for kind, shares in parts.items():
        listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items() if name != "milliseconds")
        say(f"{kind}: {listed}")
    return {"model": FLAGSHIP, **parts}
