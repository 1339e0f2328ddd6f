"""Several processes under torchrun; with one process every function does nothing."""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cliffordstf.errors import ConfigError


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
        dist.all_reduce(value)
    return value


def sum_gradients(module: nn.Module) -> None:
    """Add up the gradients of all processes, in one message."""
    if not dist.is_initialized():
        return
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    dist.all_reduce(flat)
    for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = part.view_as(parameter)


def share(value: Any) -> Any:
    """An object of the main process, on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
