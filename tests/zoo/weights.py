"""Moving the weights of a potential, and carrying them over to a network that upstream built."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


def move_weights(module: nn.Module) -> None:
    """Take every weight off its initial value, as training does: a bias that starts at zero hides what it does."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)


def renamed(state: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """A state dict with parts of its names replaced, each once, in the order given."""
    result = {}
    for name, value in state.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs, 1)  # noqa: PLW2901
        result[name] = value
    return result


def give_weights(
    network: nn.Module, state: Mapping[str, Tensor], elements: tuple[int, ...], own: Iterable[str] = ()
) -> None:
    """Load an adapter's weights into a network that knows every element.

    An adapter's tables of elements end with one row for each element that it knows; upstream's have one for every
    atomic number.

    Args:
        network: What upstream built.
        state: All weights and buffers of the network but its own, by upstream's names.
        elements: Atomic numbers that the adapter knows, in the order of its rows.
        own: Names of what the network has and the adapter has not.
    """
    theirs = network.state_dict()
    assert set(theirs) == {*state, *own}
    for name, value in state.items():
        if theirs[name].shape == value.shape:
            theirs[name].copy_(value)
        else:
            theirs[name][list(elements)] = value[-len(elements) :]
