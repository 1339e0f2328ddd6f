"""A process that measures one checkout: requests come in as lines of JSON, answers go out as lines of JSON.

The file is run by its path, by an interpreter that finds the cliffordstf of some commit. Therefore it imports nothing
of this one's own, and uses only what cliffordstf has offered for long: build, save, Calculator, and train with a
watcher.
"""

import ctypes
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import torch

import cliffordstf

MOVE = 1e-3
"""Å, by which atoms move from one evaluation to the next; a neighbour list with a skin stays as it is."""


class _DoneError(Exception):
    """Ends a training run from its watcher."""


class Channel:
    """Lines of JSON over the standard streams; what libraries print goes to the standard error instead."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def next(self) -> dict[str, Any] | None:
        """The next request; None at the end."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def answer(self, **values: Any) -> None:
        """Send an answer."""
        self._answers.write(json.dumps(values) + "\n")
        self._answers.flush()


class Steps:
    """A watcher of a training run that lets it go on by as many updates as the next request asks for."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._wanted = 0
        self._last: float | None = None
        self._times: list[float] = []

    def prepared(self, setup: Any, directory: Path) -> None:
        """Nothing to do."""

    def validated(self, row: dict[str, float | None]) -> None:
        """Nothing to do."""

    def step(self, progress: Any, share: float, loss: float) -> None:  # noqa: ARG002 - as a watcher's
        """After every update; the clock of the training stands still in here."""
        if self._last is not None:
            self._times.append(progress.seconds - self._last)
        self._last = progress.seconds
        if len(self._times) < self._wanted:
            return
        self._channel.answer(seconds=self._times)
        request = self._channel.next()
        if request is None or request["do"] != "step":
            raise _DoneError
        self._wanted, self._times = request["times"], []


class Worker:
    """What a request may ask for; every method returns the answer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls = 0

    def hello(self) -> dict[str, Any]:
        """Which code this is."""
        return {"file": cliffordstf.__file__, "threads": torch.get_num_threads()}

    def build(self, preset: str, elements: list[int], neighbours: float, file: str) -> dict[str, Any]:
        """Write an untrained model to a file."""
        from cliffordstf.model.file import save_model  # noqa: PLC0415 - the other worker needs none of it

        options: dict[str, Any] = {"average_neighbours": neighbours} if preset.startswith("default") else {}
        potential = cliffordstf.build(preset, elements=elements, seed=0, **options)
        save_model(potential, Path(file))
        return {"parameters": sum(weight.numel() for weight in potential.parameters())}

    def open(self, model: str, structure: str) -> dict[str, Any]:
        """Take a model and a structure for the evaluations that follow; forces, eV/Å."""
        self.take(model, structure)
        return {"forces": self._atoms.get_forces().tolist()}

    def take(self, model: str, structure: str) -> dict[str, Any]:
        """Take a model and a structure, and evaluate nothing yet."""
        atoms: Any = ase.io.read(structure)
        self._atoms, self._positions = atoms, atoms.positions.copy()
        self._calls = 0
        self._atoms.calc = cliffordstf.Calculator(model, dtype="float32")
        return {"atoms": len(self._atoms)}

    def calculate(self, times: int) -> dict[str, Any]:
        """Seconds of evaluations, after a small move of the atoms each; the moves are the same in every worker."""
        return {"seconds": [self._evaluate() for _ in range(times)]}

    def memory(self) -> dict[str, Any]:
        """Kilobytes by which this process grows at most during an evaluation."""
        gc.collect()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return {"kilobytes": None}
        before = _status("VmRSS")
        self._evaluate()
        return {"kilobytes": _status("VmHWM") - before}

    def train(self, model: str, data: str, folder: str, batch_size: int | str) -> dict[str, Any]:
        """Begin to fine-tune a model; the requests that follow are `step`, and any other one ends the run."""
        from cliffordstf.train.config import load_config  # noqa: PLC0415 - as above
        from cliffordstf.train.run import train  # noqa: PLC0415

        options = [
            f"data.train={data}",
            "data.valid=1",
            f"finetune.model={model}",
            "finetune.new_references=false",
            f"batch_size={batch_size}",
            "optimizer.learning_rate=1e-6",
            "epochs=null",
            "steps=1000000",
            "validate_every=1000",
            "checkpoint_minutes=1000",
        ]
        try:
            train(load_config(None, options), Path(folder), Steps(self._channel))
        except _DoneError:
            return {"is_over": True}
        raise RuntimeError("the training ended by itself")

    def _evaluate(self) -> float:
        self._calls += 1
        shape = self._positions.shape
        self._atoms.positions = self._positions + np.random.default_rng(self._calls).normal(0, MOVE, shape)
        start = time.perf_counter()
        self._atoms.get_forces()
        return time.perf_counter() - start


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return float(next(line for line in lines if line.startswith(key)).split()[1])


def main() -> None:
    """Answer requests until there are no more."""
    channel = Channel()
    worker = Worker(channel)
    while (request := channel.next()) is not None:
        channel.answer(**getattr(worker, request.pop("do"))(**request))


if __name__ == "__main__":
    main()
