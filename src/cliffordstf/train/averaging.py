"""Exponential moving average of weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Keeps a moving average of a module's parameters, used for validation and for the final model.

    The decay grows from zero to its value over the first steps, so that the random start is forgotten.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.average: dict[str, Tensor] = {name: p.detach().clone() for name, p in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take one step's weights into the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        parameters = [p.detach() for _, p in module.named_parameters()]
        torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)

    @contextmanager
    def applied(self, module: nn.Module) -> Iterator[None]:
        """Put the average into the module while the block runs."""
        own = {name: p.detach().clone() for name, p in module.named_parameters()}
        self.copy_to(module)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in module.named_parameters():
                    parameter.copy_(own[name])

    @torch.no_grad()
    def copy_to(self, module: nn.Module) -> None:
        """Replace the module's weights by the average."""
        for name, parameter in module.named_parameters():
            parameter.copy_(self.average[name])
