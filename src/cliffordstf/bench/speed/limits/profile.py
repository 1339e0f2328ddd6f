"""Where the time of a step goes, by part."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cliffordstf.bench.speed.contenders import Contender
from cliffordstf.data.batch import Batch
from cliffordstf.kernels.native.library import Call
from cliffordstf.nn.radial import DualRadial, RadialFunctions

RADIAL = "radial network"
FAMILIES = {
    "edge": "edge operator",
    "convolution": "edge operator",
    "node": "products",
    "linear": "linear maps",
    "gate": "gates",
    "radial": RADIAL,
    "pair": "lengths and directions",
    "attention": "attention",
}
REST = "readout, geometry, autograd, optimiser"


@contextmanager
def _recording(seconds: dict[str, float]) -> Iterator[None]:
    """Add up the time spent in the kernels and in the radial network."""

    def timed(function: Callable[..., Any], part: Callable[..., str]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            start = time.perf_counter()
            result = function(*args)
            name = part(*args)
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            return result

        return run

    places: list[tuple[type, str, Callable[..., str]]] = [
        (Call, "__call__", lambda call: FAMILIES[call.name.split("_")[0]]),
        (RadialFunctions, "_values_and_slopes", lambda *_: RADIAL),
        (DualRadial, "forward", lambda *_: RADIAL),
        (DualRadial, "backward", lambda *_: RADIAL),
    ]
    originals = [getattr(owner, name) for owner, name, _ in places]
    for (owner, name, part), original in zip(places, originals, strict=True):
        setattr(owner, name, timed(original, part))
    try:
        yield
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def profile(contender: Contender, batch: Batch, repetitions: int = 5) -> dict[str, dict[str, float]]:
    """Share of each part in an inference step and in a training step; `milliseconds` is the whole step."""
    results = {}
    for kind, action in (("inference", contender.inference(batch)), ("training", contender.training(batch))):
        action()
        seconds: dict[str, float] = {}
        with _recording(seconds):
            start = time.perf_counter()
            for _ in range(repetitions):
                action()
            total = time.perf_counter() - start
        shares = {name: value / total for name, value in sorted(seconds.items(), key=lambda item: -item[1])}
        shares[REST] = 1 - sum(shares.values())
        results[kind] = {**shares, "milliseconds": total / repetitions * 1e3}
    return results
