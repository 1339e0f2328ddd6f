"""Exponential moving average of weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Keeps a moving average of a module's parameters, used for validation and for the final model.

    The decay grows from zero to its value over the first steps, so that the random start is forgotten.

    Args:
        module: Whose parameters; they must stay the same tensors.
        decay: Share of the average that each step keeps.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        # Found once: walking through the modules takes longer than averaging small weights.
        self._parameters = dict(module.named_parameters())
        self.average: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take one step's weights into the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(list(self.average.values()), list(self._parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the module while the block runs."""
        own = {name: p.detach().clone() for name, p in self._parameters.items()}
        self.copy_to_module()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(own[name])

    @torch.no_grad()
    def copy_to_module(self) -> None:
        """Replace the module's weights by the average."""
        for name, parameter in self._parameters.items():
            parameter.copy_(self.average[name])
