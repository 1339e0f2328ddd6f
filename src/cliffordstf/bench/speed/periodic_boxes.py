"""Time and memory per atom of a growing periodic box, ours and a peer's."""

from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from cliffordstf import zoo
from cliffordstf.bench.speed.contenders import PEER_OPTIONS, Contender
from cliffordstf.bench.speed.peak_memory import peak_memory
from cliffordstf.bench.speed.systems import copper_box
from cliffordstf.bench.speed.timing import Rounds, Timing, interleaved, ratio
from cliffordstf.model.build import build
from cliffordstf.model.potential import Potential

COPPER = 29
OURS = "default"
PEER = "mace-l1"
PEER_SIZE = 1_000
ROUNDS = 7
ATOMS_A_ROUND = 4_000
"""Smaller boxes are evaluated several times a round, so that a moment of noise weighs the same in all of them."""
Say = Callable[[str], None]
Box = tuple[str, int]
"""Whose, and about how many atoms."""


def measure_boxes(sizes: tuple[int, ...], models: Collection[str], limit: float, say: Say) -> list[dict[str, Any]]:
    """A row of our model for each size, and one of the peer if it is installed.

    Args:
        sizes: Atoms, about.
        models: Our model and the peer take part if they are among these; nothing else does.
        limit: Seconds that the evaluations of one box may take before it stops taking part; three are always made.
        say: Told each row.
    """
    boxes = [(name, size) for size in sizes for name in (OURS, PEER) if name in models and _has_box(name, size)]
    if not boxes:
        return []
    # Processes of their own: memory that others have freed would hide what a box needs.
    memory = [_alone(box_memory, box) for box in boxes]
    timed: list[dict[str, Any]] = _alone(time_boxes, boxes, limit)
    rows = [{**row, "kilobytes_per_atom": kilobytes} for row, kilobytes in zip(timed, memory, strict=True)]
    for row in rows:
        say(f"box of {row['atoms']} atoms, {row['name']}: {row['microseconds_per_atom']:.0f} µs/atom, "
            f"{row['kilobytes_per_atom'] or 0:.0f} kB/atom")  # fmt: skip
    return rows


def _has_box(name: str, size: int) -> bool:
    return name == OURS or (size == PEER_SIZE and zoo.available(name) is None)


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def box_memory(box: Box) -> float | None:
    """Kilobytes per atom by which this process grows for energy and forces of a box."""
    name, size = box
    potential, structure = _potential(name), copper_box(size)
    small = Contender(name, potential).inference(potential.batch(copper_box(30)))
    for _ in range(4):  # what is loaded, compiled or optimised at the first calls is not the box's
        small()
    memory = peak_memory(Contender(name, potential).inference(potential.batch(structure)))
    return None if memory is None else memory * 1024 / len(structure)


def time_boxes(boxes: list[Box], limit: float) -> list[dict[str, Any]]:
    """Time energy and forces of all boxes in turn, again and again: machines change their speed within minutes."""
    potentials = {name: _potential(name) for name, _ in boxes}
    actions: dict[str, Callable[[], object]] = {}
    rows: list[dict[str, Any]] = []
    for name, size in boxes:
        batch = potentials[name].batch(copper_box(size))
        atoms = len(batch.numbers)
        repeats = max(1, ATOMS_A_ROUND // atoms)
        actions[f"{name} {atoms}"] = _repeated(Contender(name, potentials[name]).inference(batch), repeats)
        rows.append({"name": name, "atoms": atoms, "edges": len(batch.senders), "evaluations_a_round": repeats})
    timings = interleaved(actions, Rounds(ROUNDS, limit, warm_calls=2)).timings
    per_atom = [_per_atom(timing, row) for timing, row in zip(timings.values(), rows, strict=True)]
    thousand = next((index for index, row in enumerate(rows) if row["atoms"] > PEER_SIZE / 2), 0)
    for row, timing in zip(rows, per_atom, strict=True):
        row["microseconds_per_atom"] = timing.median * 1e6
        row["quartiles"] = [value * 1e6 for value in timing.quartiles]
        row["time_per_atom_over_thousand"] = ratio(timing, per_atom[thousand])
    return rows


def _potential(name: str) -> Potential:
    if name == OURS:
        return build("default", elements=[COPPER], seed=0, average_neighbours=42.0)
    return zoo.build(name, (COPPER,), cutoff=5.0, average_neighbours=42.0, seed=0, **PEER_OPTIONS[name])


def _repeated(action: Callable[[], object], times: int) -> Callable[[], object]:
    def run() -> None:
        for _ in range(times):
            action()

    return run


def _per_atom(timing: Timing, row: dict[str, Any]) -> Timing:
    return Timing(tuple(seconds / (row["atoms"] * row["evaluations_a_round"]) for seconds in timing.seconds))
