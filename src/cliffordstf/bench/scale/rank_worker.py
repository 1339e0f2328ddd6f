"""One process of a measured training: `torchrun -m cliffordstf.bench.scale.rank_worker CONFIG OUT STEPS`.

Measures steps as they are, then the parts of a step, then messages of several sizes. The main process writes JSON.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from cliffordstf.data.dataset import shuffled
from cliffordstf.host.files import write_text
from cliffordstf.train import parallel
from cliffordstf.train.config import TrainConfig, load_config
from cliffordstf.train.loop import Trainer
from cliffordstf.train.progress import Hooks
from cliffordstf.train.setup import prepare

WARM_UP = 5
MESSAGES = (8, 64 * 1024, 1024 * 1024, 16 * 1024 * 1024)
"""Bytes of the messages that are timed."""
SIZES = (1, 2, 4, 8, 16, 32)
"""Structures of a process for which the time of a step is measured, in one process."""


def main(arguments: list[str]) -> None:
    """Measure, and write what was found."""
    config = load_config(Path(arguments[0]), [])
    parallel.start(config.device)
    try:
        found = measure(config, int(arguments[2]))
        if parallel.is_main():
            write_text(Path(arguments[1]), json.dumps(found))
    finally:
        parallel.stop()


def measure(config: TrainConfig, steps: int) -> dict[str, Any]:
    """Times of a step, its parts, messages and structures."""
    setup = prepare(config)
    hooks = Hooks(step=lambda *_: None, validated=lambda _: None, best=lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "last.ckpt")
        trainer = Trainer(setup.potential, setup.train, setup.valid, setup.plan, config, setup.baseline, file, hooks)
        trainer.potential.train()
        groups = list(_batches(trainer, setup.plan.size, steps + WARM_UP))
        started = time.process_time()
        plain = _timed(trainer, groups)
        processor = time.process_time() - started
        with _measured_messages() as traffic:
            split = _timed(trainer, groups)
        found = {
            "processes": parallel.world(),
            "batch_size": setup.plan.size,
            "parameters": sum(parameter.numel() for parameter in trainer.potential.parameters()),
            "step_ms": 1000 * median(plain),
            "processor_ms": 1000 * processor / len(groups),
            "step_in_parts_ms": 1000 * median(split),
            "messages_a_step": len(traffic.calls) / len(groups),
            "bytes_a_step": sum(size for size, _, _ in traffic.calls) / len(groups),
            "waiting_ms": 1000 * sum(wait for _, wait, _ in traffic.calls) / len(groups),
            "sending_ms": 1000 * sum(sent for _, _, sent in traffic.calls) / len(groups),
            "messages": _messages(),
            "imbalance": _imbalance(trainer, setup.plan.size),
        }
        if parallel.world() == 1:
            found["ms_by_structures"] = {size: _step_ms(trainer, size, steps) for size in SIZES}
        trainer.potential.release()
    return found


def _batches(trainer: Trainer, size: int, count: int) -> Iterator[list[int]]:
    order = shuffled(len(trainer.train), 0, 0)
    for number in range(count):
        yield [int(order[(number * size + place) % len(order)]) for place in range(size)]


def _timed(trainer: Trainer, groups: list[list[int]]) -> list[float]:
    """Seconds of each update after the first ones."""
    seconds = []
    for indices in groups:
        started = time.perf_counter()
        trainer.update(indices)
        seconds.append(time.perf_counter() - started)
    return seconds[WARM_UP:]


def _step_ms(trainer: Trainer, size: int, steps: int) -> float:
    return 1000 * median(_timed(trainer, list(_batches(trainer, size, steps + WARM_UP))))


class Traffic:
    """Messages of some steps: bytes, seconds until all processes were there, seconds of the message."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, float, float]] = []


@contextmanager
def _measured_messages() -> Iterator[Traffic]:
    """Let every sum over processes wait for all of them first, so that waiting and sending can be told apart."""
    traffic, original = Traffic(), dist.all_reduce

    def measured(value: Tensor, *rest: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        dist.barrier()
        middle = time.perf_counter()
        answer = original(value, *rest, **options)
        traffic.calls.append((value.numel() * value.element_size(), middle - begin, time.perf_counter() - middle))
        return answer

    dist.all_reduce = measured  # type: ignore[assignment]
    try:
        yield traffic
    finally:
        dist.all_reduce = original


def _messages() -> dict[int, float]:
    """Milliseconds of a sum over all processes by its bytes; none in one process."""
    return {size: _message_ms(size, dist.all_reduce) for size in MESSAGES} if parallel.world() > 1 else {}


def _message_ms(size: int, send: Callable[[Tensor], Any]) -> float:
    value, seconds = torch.zeros(size // 4), []
    for _ in range(30):
        dist.barrier()
        started = time.perf_counter()
        send(value)
        seconds.append(time.perf_counter() - started)
    return 1000 * median(seconds)


def _imbalance(trainer: Trainer, size: int) -> dict[int, float]:
    """Edges of the largest part over the mean, for batches of so many structures a process, by number of processes."""
    edges = trainer.train.edges
    generator = np.random.default_rng(0)
    found = {}
    for parts in (2, 8, 16, 32, 64, 128, 256, 512, 1024):
        ratios = []
        for _ in range(5):
            costs = edges[generator.integers(0, len(edges), size=parts * size)].tolist()
            sums = [sum(part) for part in parallel.balanced(costs, costs, parts)]
            ratios.append(max(sums) * parts / sum(sums))
        found[parts] = float(np.mean(ratios))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
