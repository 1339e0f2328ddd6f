"""Several processes under torchrun; with one process every function does nothing."""

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cliffordstf.errors import CliffordSTFError, ConfigError


class LostProcessError(CliffordSTFError, RuntimeError):
    """Another process of the run is gone, so this one cannot go on either."""


@contextmanager
def _with_all() -> Iterator[None]:
    """What all processes do together; the end of one of them is an error of the others."""
    try:
        yield
    except RuntimeError as error:  # of the library that sends, which says where in its own code
        raise LostProcessError(
            f"another of the {world()} processes of this training ended or cannot be reached, so process {rank()} "
            "stops as well; see what that one printed, then go on with 'cliffordstf train --resume FOLDER', on any "
            "number of processes."
        ) from error


def start(wanted: str) -> None:
    """Join the process group if torchrun started this process; `wanted` is the config's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device(wanted).type == "cuda" else "gloo")


def device(wanted: str) -> torch.device:
    """The device of this process: `auto` is a GPU where there is one, each process taking its own.

    Raises:
        ConfigError: There is no such device.
    """
    name = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"device '{wanted}' cannot be used ({reason}); choose cpu or a GPU that is there.") from None
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(found)
    return found


def stop() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    """Number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process writes files and prints."""
    return rank() == 0


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, the same on each."""
    if dist.is_initialized():
        value = value.detach().clone()
        with _with_all():
            dist.all_reduce(value)
    return value


def sum_of_numbers(values: Sequence[float], device: torch.device) -> list[float]:
    """The sums of some numbers over all processes, in one message."""
    return sum_over_processes(torch.tensor(values, dtype=torch.float64, device=device)).tolist()


def sum_gradients(module: nn.Module) -> None:
    """Add up the gradients of all processes, in one message."""
    if not dist.is_initialized():
        return
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    with _with_all():
        dist.all_reduce(flat)
    for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = part.view_as(parameter)


def share(value: Any) -> Any:
    """An object of the main process, on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    with _with_all():
        dist.broadcast_object_list(box, src=0)
    return box[0]


def my_part(indices: Sequence[int], costs: Sequence[int]) -> list[int]:
    """The part of a batch that is this process's.

    Args:
        indices: Structures of the batch, the same on every process.
        costs: Of each, such as its edges.
    """
    return balanced(indices, costs, world())[rank()]


def balanced(indices: Sequence[int], costs: Sequence[int], parts: int) -> list[list[int]]:
    """Divide structures so that the parts cost about the same.

    The most expensive one that is left goes to the part that has least: no part costs more than 4/3 of what the best
    division would. Each part keeps the order of the batch.

    >>> balanced([10, 11, 12, 13], [5, 1, 1, 3], 2)
    [[10], [11, 12, 13]]
    """
    if parts == 1:
        return [list(indices)]
    heap = [(0, part) for part in range(parts)]
    chosen: list[list[int]] = [[] for _ in range(parts)]
    for place in sorted(range(len(indices)), key=lambda place: (-int(costs[place]), place)):
        cost, part = heapq.heappop(heap)
        chosen[part].append(place)
        heapq.heappush(heap, (cost + int(costs[place]), part))
    return [[indices[place] for place in sorted(places)] for places in chosen]
