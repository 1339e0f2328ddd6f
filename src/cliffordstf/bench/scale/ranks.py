"""Training in several processes: bytes moved, time of a step, and where it would stop scaling."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.bench.jobs.sweep import SweepError, file_name
from cliffordstf.bench.tables.formatting import titled
from cliffordstf.bench.tables.table import Table
from cliffordstf.host.files import write_text
from cliffordstf.train.config import TrainConfig, to_yaml
from cliffordstf.train.provenance import describe_run
from cliffordstf.train.run import Watcher

DEVICES = (1, 2, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class RanksJob:
    """Steps of training in so many processes of this machine.

    Attributes:
        config: Of the run; its batch size is that of all processes together.
        processes: How many.
        steps: Updates that are timed.
    """

    config: TrainConfig
    processes: int
    steps: int

    @property
    def name(self) -> str:
        """Safe for a file name."""
        data = file_name(Path(str(self.config.data.train)).stem)
        return f"ranks-{data}-{self.processes}-batch-{self.config.batch_size}"

    @property
    def labels(self) -> dict[str, Any]:
        """What is measured."""
        return {
            "benchmark": "ranks",
            "frames": Path(str(self.config.data.train)).name,
            "model": str(self.config.model.get("preset", "default")),
            "processes": self.processes,
            "steps": self.steps,
        }

    def settings(self) -> dict[str, Any]:
        """Its labels say everything."""
        return {}

    def run(self, directory: Path, watcher: Watcher | None) -> dict[str, Any]:  # noqa: ARG002 - nothing to watch
        """Start the processes under torchrun and take what they measure."""
        directory.mkdir(parents=True, exist_ok=True)
        config, out = directory / "config.yaml", directory / "measured.json"
        write_text(config, to_yaml(self.config))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*torchrun, "--nproc-per-node", str(self.processes), "-m", "cliffordstf.bench.scale.rank_worker"]
        with (directory / "log").open("w", encoding="utf-8") as log:
            arguments = [str(config), str(out), str(self.steps)]
            code = subprocess.run([*command, *arguments], check=False, stdout=log, stderr=log).returncode
        if code:
            raise SweepError(f"torchrun ended with exit code {code}; see {directory / 'log'}.")
        return {**describe_run(), "measured": json.loads(out.read_text(encoding="utf-8"))}


def ranks_tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """What was measured, and what follows from it for more devices."""
    chosen = sorted(results, key=lambda result: (result["measured"]["batch_size"], result["processes"]))
    tables = [_measured(chosen)]
    for frames in dict.fromkeys(result["frames"] for result in chosen):
        own = [result for result in chosen if result["frames"] == frames]
        singles, several = ([r for r in own if (r["processes"] == 1) == is_single] for is_single in (True, False))
        if singles and several:
            tables.append(_projected(singles[0]["measured"], several[-1]["measured"], own))
    return tables


def _measured(chosen: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        titled(
            "Training in several processes of one machine (gloo), one core each; medians; the batch is shared", chosen
        ),
        [
            "data",
            "processes",
            "structures in the batch",
            "ms a step",
            "speed-up",
            "processor time of the main process, ms a step",
            "messages a step",
            "kB moved a step",
            "waiting for others, ms",
            "sending, ms",
        ],
    )
    for result in chosen:
        found = result["measured"]
        single = next((r["measured"] for r in chosen if r["processes"] == 1 and _same_batch(r, result)), None)
        table.add(
            result["frames"],
            str(found["processes"]),
            str(found["batch_size"]),
            f"{found['step_ms']:.1f}",
            "" if single is None else f"{single['step_ms'] / found['step_ms']:.2f}",
            f"{found['processor_ms']:.1f}",
            f"{found['messages_a_step']:.0f}",
            f"{found['bytes_a_step'] / 1000:.0f}",
            f"{found['waiting_ms']:.2f}",
            f"{found['sending_ms']:.2f}",
        )
    return table


def _same_batch(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["measured"]["batch_size"] == other["measured"]["batch_size"] and one["frames"] == other["frames"])


@dataclass(frozen=True)
class Projection:
    """How long a step takes on more devices, from what was measured on few.

    A step of a device is `fixed + each · structures`, times the imbalance of the edges. Sums over n devices go around a
    ring: every message costs 2 (n - 1) latencies, and its bytes cross each link 2 (n - 1) / n times.

    Attributes:
        fixed: Part of a step that does not depend on the structures, ms.
        each: ms a structure.
        latency: Of one message between neighbours, ms.
        rate: Bytes a millisecond of a link.
        messages, bytes: Of a step.
        imbalance: Largest part over the mean, by number of devices.
    """

    fixed: float
    each: float
    latency: float
    rate: float
    messages: float
    bytes: float
    imbalance: Mapping[int, float]

    @classmethod
    def measured(cls, single: Mapping[str, Any], several: Mapping[str, Any]) -> "Projection":
        """From steps of different sizes in one process, and from messages between several."""
        times = {int(size): float(ms) for size, ms in single["ms_by_structures"].items()}
        each, fixed = np.polyfit(list(times), list(times.values()), 1, w=1 / np.array(list(times.values())))
        count = several["processes"]
        messages = {int(size): float(ms) for size, ms in several["messages"].items()}
        small, large = min(messages), max(messages)
        hops = 2 * (count - 1)
        return cls(
            fixed=max(0.0, float(fixed)),
            each=float(each),
            latency=messages[small] / hops,
            rate=(large - small) * hops / count / (messages[large] - messages[small]),
            messages=several["messages_a_step"],
            bytes=several["bytes_a_step"],
            imbalance={int(parts): float(ratio) for parts, ratio in single["imbalance"].items()},
        )

    def sending_ms(self, devices: int) -> float:
        """Messages of a step on so many devices."""
        hops = 2 * (devices - 1)
        return hops * self.messages * self.latency + hops / devices * self.bytes / self.rate

    def step_ms(self, devices: int, structures: float) -> float:
        """A step on so many devices, each with so many structures."""
        return (self.fixed + self.each * structures) * self.imbalance.get(devices, 1.0) + self.sending_ms(devices)

    def most_devices(self, structures: int) -> int:
        """Devices at which a batch of so many structures takes the least time a step."""
        counts = [2**power for power in range(int(log2(structures)) + 1)]
        return min(counts, key=lambda devices: self.step_ms(devices, structures / devices))


def _projected(single: Mapping[str, Any], several: Mapping[str, Any], chosen: Sequence[dict[str, Any]]) -> Table:
    projection = Projection.measured(single, several)
    a_device, batch = int(single["batch_size"]), 1024
    table = Table(
        titled(
            f"{chosen[0]['frames']}, computed: a device's step {projection.fixed:.2f} ms + {projection.each:.2f} ms a "
            f"structure; {1000 * projection.latency:.0f} µs and {projection.rate / 1e6:.2f} GB/s between neighbours of "
            "a ring; "
            f"a fixed batch of {batch} structures is fastest on {projection.most_devices(batch)} devices",
            chosen,
        ),
        [
            "devices",
            f"edges, largest part / mean ({a_device} structures a device)",
            "sending, ms",
            f"ms a step, {a_device} structures a device",
            "efficiency",
            f"ms a step, {batch} structures in all",
            "efficiency",
        ],
    )
    for devices in DEVICES:
        weak, strong = projection.step_ms(devices, a_device), projection.step_ms(devices, batch / devices)
        table.add(
            str(devices),
            f"{projection.imbalance.get(devices, 1.0):.3f}",
            f"{projection.sending_ms(devices):.2f}",
            f"{weak:.1f}",
            f"{projection.step_ms(1, a_device) / weak:.2f}",
            f"{strong:.1f}",
            f"{projection.step_ms(1, batch) / strong / devices:.2f}",
        )
    return table
