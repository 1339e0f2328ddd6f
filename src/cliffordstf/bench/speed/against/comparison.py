"""What is measured of two checkouts: dynamics of molecules, training, and growing boxes, each in turn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from cliffordstf.bench.speed.against.structures import Inputs, MoleculeFiles, write_inputs
from cliffordstf.bench.speed.against.worker_process import WorkerProcess, commit_of, own_source, source_folder
from cliffordstf.bench.speed.timing import Measured, Rounds, measure, ratio
from cliffordstf.model.presets import preset
from cliffordstf.train.provenance import describe_run

Say = Callable[[str], None]
Pair = dict[str, WorkerProcess]
SIDES = ("old", "new")
MODELS = ("default",)
BATCH = 32
"""Structures of a large update, and molecules that are evaluated as one structure."""


@dataclass(frozen=True)
class AgainstSettings:
    """What to compare, and how long.

    Attributes:
        models: Presets that both checkouts have.
        boxes: Sizes of the periodic box, atoms.
        repetitions: Rounds.
        limit: Seconds of each side and kind of measurement, after the minimum of rounds.
        turn: Seconds for which a side is called again when it is its turn.
    """

    models: tuple[str, ...] = MODELS
    boxes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    repetitions: int = 15
    limit: float = 60.0
    turn: float = 0.5

    def rounds(self) -> Rounds:
        """The rounds of one kind of measurement."""
        return Rounds(self.repetitions, self.limit, turn=self.turn)


def compare(checkout: Path, settings: AgainstSettings, say: Say) -> dict[str, Any]:
    """Measure this code and that of a checkout with the same weights, as a mapping for a JSON file.

    The other code writes the model files, which this one has to read as well.

    Raises:
        ConfigError: The path is no checkout of cliffordstf.
        CheckoutError: One of the two codes failed.
    """
    for name in settings.models:
        preset(name)  # so that a misspelt name is an error before anything is measured
    sources = {"old": source_folder(checkout), "new": own_source()}
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        inputs = write_inputs(folder, BATCH, settings.boxes)
        for model in settings.models:
            molecules, box = folder / "molecules.safetensors", folder / "box.safetensors"
            with WorkerProcess(sources["old"], 1) as builder:
                builder.ask("build", preset=model, elements=[1, 6, 8], neighbours=15.0, file=str(molecules))
                builder.ask("build", preset=model, elements=[29], neighbours=42.0, file=str(box))
            for row in _rows(sources, settings, inputs, molecules, box, say):
                rows.append({"model": model, **row})
                say(_sentence(rows[-1]))
    return {
        **describe_run(),
        "settings": asdict(settings),
        "units": {"seconds": "s", "memory": "kB/atom", "forces": "eV/Å"},
        "against": {"commit": commit_of(sources["old"])},
        "rows": rows,
    }


def _rows(
    sources: dict[str, Path], settings: AgainstSettings, inputs: Inputs, molecules: Path, box: Path, say: Say
) -> Iterator[dict[str, Any]]:
    for system, files in inputs.molecules.items():
        with _pair(sources) as pair:
            for kind, structure in (("latency", files.one), ("inference", files.many)):
                yield {"system": system, "kind": kind, **_evaluations(pair, molecules, structure, settings)}
        # The batch size of the default recipe, and a large one.
        for batch_size in ("auto", BATCH):
            with _pair(sources) as pair:
                yield {"system": system, "kind": "training", **_training(pair, molecules, files, batch_size, settings)}
    for size, structure in inputs.boxes.items():
        memory = {side: _memory(source, box, inputs.small_box, structure) for side, source in sources.items()}
        row: dict[str, Any] = {"system": f"copper {size}", "kind": "box", **_per_atom(memory, size)}
        if _fits(memory):
            with _pair(sources) as pair:
                yield {**row, **_evaluations(pair, box, structure, settings)}
        else:
            say(f"box of {size} atoms: not timed, both codes together need more memory than is free")
            yield row


@contextmanager
def _pair(sources: dict[str, Path]) -> Iterator[Pair]:
    """A worker of each code."""
    threads = torch.get_num_threads()
    with WorkerProcess(sources["old"], threads) as old, WorkerProcess(sources["new"], threads) as new:
        yield {"old": old, "new": new}


def _evaluations(pair: Pair, model: Path, structure: Path, settings: AgainstSettings) -> dict[str, Any]:
    """Energy and forces by the calculator, and how far the forces of the two codes are apart."""
    opened = {side: worker.ask("open", model=str(model), structure=str(structure)) for side, worker in pair.items()}
    old, new = (np.array(opened[side]["forces"]) for side in SIDES)
    found = measure({side: _stopwatch(worker, "calculate") for side, worker in pair.items()}, settings.rounds())
    return {
        "atoms": len(old),
        **_times(found),
        "largest_force": float(np.abs(old).max()),
        "largest_difference_of_forces": float(np.abs(old - new).max()),
    }


def _training(
    pair: Pair, model: Path, files: MoleculeFiles, batch_size: int | str, settings: AgainstSettings
) -> dict[str, Any]:
    """Updates of a run of `train`, by the clock of the run."""
    data = files.data
    for side, worker in pair.items():
        folder = data.parent / f"{data.stem}-{model.stem}-{side}"
        number = len(list(data.parent.glob(f"{folder.name}*")))
        worker.ask("train", model=str(model), data=str(data), folder=f"{folder}-{number}", batch_size=batch_size)
    found = measure({side: _stopwatch(worker, "step") for side, worker in pair.items()}, settings.rounds())
    for worker in pair.values():
        worker.ask("end")
    return {"structures_a_step": batch_size, **_times(found)}


def _stopwatch(worker: WorkerProcess, do: str) -> Callable[[], float]:
    """Seconds by the worker's own clock: the pipe does not count."""
    return lambda: float(worker.ask(do, times=1)["seconds"][0])


def _times(found: Measured) -> dict[str, Any]:
    timings = {side: found.timings[side] for side in SIDES}
    return {
        "seconds": {side: timing.median for side, timing in timings.items()},
        "quartiles": {side: list(timing.quartiles) for side, timing in timings.items()},
        "old_over_new": ratio(timings["old"], timings["new"]),
    }


def _memory(source: Path, model: Path, small: Path, structure: Path) -> float | None:
    """Kilobytes by which a fresh process grows for a box."""
    with WorkerProcess(source, torch.get_num_threads()) as worker:
        worker.ask("open", model=str(model), structure=str(small))
        worker.ask("calculate", times=3)  # what the first calls load or compile is not the box's
        worker.ask("take", model=str(model), structure=str(structure))
        found: float | None = worker.ask("memory")["kilobytes"]
        return found


def _per_atom(memory: dict[str, float | None], atoms: int) -> dict[str, Any]:
    known = {side: None if value is None else value / atoms for side, value in memory.items()}
    return {"atoms": atoms, "kilobytes_per_atom": known}


def _fits(memory: dict[str, float | None]) -> bool:
    """Whether both codes can hold a box at once; yes where the system reports nothing."""
    needed = sum(value for value in memory.values() if value is not None)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return True
    available = next((line for line in lines if line.startswith("MemAvailable")), None)
    return available is None or 1.2 * needed < float(available.split()[1])


def what_is_timed(row: dict[str, Any]) -> str:
    """The kind of a row, with the batch size of a training."""
    return f"{row['kind']}, batch size {row['structures_a_step']}" if row["kind"] == "training" else str(row["kind"])


def _sentence(row: dict[str, Any]) -> str:
    what = f"{row['model']}, {row['system']}, {what_is_timed(row)}"
    if "old_over_new" not in row:
        return f"{what}: memory only"
    found, seconds = row["old_over_new"], row["seconds"]
    spread = f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f}; {found['rounds']})"
    return f"{what}: old {1e3 * seconds['old']:.2f} ms, new {1e3 * seconds['new']:.2f} ms, old/new {spread}"
