"""Several processes under torchrun; with one process every function does nothing."""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def start() -> None:
    """Join the process group if torchrun started this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


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
