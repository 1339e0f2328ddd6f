"""Where the time of a step goes, by part."""

import time

from cliffordstf.bench.speed.contenders import Contender
from cliffordstf.data.batch import Batch
from cliffordstf.engine.native import NativeEngine

PARTS = {
    "edge_convolution": "edge operator",
    "node_bilinear": "products",
    "track_linear": "linear maps",
    "scalar_gate": "gates",
    "activation": "gates",
    "radial_functions": "radial network",
    "pair_geometry": "lengths and directions",
    "readout": "readout",
    "embedding": "embedding",
}
REST = "PyTorch, Python, optimiser"


def profile(contender: Contender, batch: Batch, repetitions: int = 5) -> dict[str, dict[str, float]]:
    """Share of each part in an inference step and in a training step; `milliseconds` is the whole step.

    Of potentials on the C++ runtime; others have no parts.
    """
    engine = contender.potential.engine.engine
    results = {}
    for kind, action in (("inference", contender.inference(batch)), ("training", contender.training(batch))):
        action()
        if isinstance(engine, NativeEngine):
            engine.profile(on=True)
        start = time.perf_counter()
        for _ in range(repetitions):
            action()
        total = time.perf_counter() - start
        shares: dict[str, float] = {}
        for operator, seconds in (engine.profile(on=False) if isinstance(engine, NativeEngine) else {}).items():
            shares[PARTS[operator]] = shares.get(PARTS[operator], 0.0) + seconds / total
        shares = dict(sorted(shares.items(), key=lambda item: -item[1]))
        results[kind] = {**shares, REST: 1 - sum(shares.values()), "milliseconds": total / repetitions * 1e3}
    return results
