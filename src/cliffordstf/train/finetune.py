"""Start a run from a trained model: frozen parts, new reference energies, added elements."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cliffordstf.data.dataset import BatchPlan, Dataset
from cliffordstf.data.frame import Frame
from cliffordstf.data.outliers import shortest_by_pair
from cliffordstf.data.references import References, find_references
from cliffordstf.data.structure import symbol
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.model.build import build_from_config
from cliffordstf.model.config import parse_config
from cliffordstf.model.potential import Potential
from cliffordstf.model.reference import AtomicReference
from cliffordstf.model.shipped import open_model
from cliffordstf.model.short_range import pair_name
from cliffordstf.train.config import FineTuneConfig


def start_from(
    config: FineTuneConfig, elements: tuple[int, ...], references: References, frames: Sequence[Frame]
) -> tuple[Potential, References]:
    """A potential with the weights of a trained one, for its elements and those of the new data.

    Rows of parameters that belong to an element are carried over by element; those of new elements start from the
    mean of the known ones.

    Args:
        config: Which model, what to freeze, which references.
        elements: Elements of the new data.
        references: Isolated-atom energies found in the new data; fitted ones are fitted again, to what the trained
            network leaves of the new energies.
        frames: The new training structures.
    """
    old, info = open_model(config.model)
    every = tuple(sorted({*old.elements, *elements}))
    energies = dict(zip(old.elements, old.reference.energies.tolist(), strict=True))
    if config.new_references:
        energies |= references.energies
    elif set(elements) - set(old.elements):
        added = ", ".join(symbol(number) for number in sorted(set(elements) - set(old.elements)))
        raise DataError(f"the model has no isolated-atom energy of {added}; set finetune.new_references=true.")
    scale = float(old.reference.scale)
    config_of_model = parse_config({**info.config, "elements": every, **_shorter(info.config, frames)})
    potential = build_from_config(config_of_model, AtomicReference(every, None, scale))
    rows = [old.elements.index(number) if number in old.elements else -1 for number in every]
    carried = {
        name: _carry(tensor, old.state_dict()[name], rows)
        for name, tensor in potential.state_dict().items()
        if not name.startswith("reference.")
    }
    potential.load_state_dict(carried | {k: v for k, v in potential.state_dict().items() if k.startswith("reference.")})
    if config.new_references and references.mode == "least-squares":
        refitted = find_references(_beyond_network(potential, frames), elements, "least-squares")
        energies |= refitted.energies
    constant = references.constant if config.new_references else float(old.reference.constant)
    potential.reference = AtomicReference(every, energies, scale, constant)
    _freeze(potential, config.freeze)
    mode = references.mode if config.new_references else "of the model"
    return potential, References(energies, mode, constant=constant)


def repulsion_distances(frames: Sequence[Frame]) -> dict[str, float]:
    """Shortest distances of structures by pair of elements, as the option of the model has them, Å."""
    return {pair_name(*pair): _down(distance) for pair, distance in shortest_by_pair(frames).items()}


def _down(distance: float) -> float:
    """Four decimals, never more than it was: the repulsion vanishes at the distances of the data."""
    return float(np.floor(1e4 * distance) / 1e4)


def _shorter(config: Mapping[str, Any], frames: Sequence[Frame]) -> dict[str, Any]:
    """The repulsion must not act on the new structures either: the shorter distance of each pair holds."""
    if config.get("repulsion", "none") == "none":
        return {}
    distances = dict(config["repulsion_distances"])
    for name, distance in repulsion_distances(frames).items():
        distances[name] = min(distance, distances.get(name, distance))
    return {"repulsion_distances": distances}


def _beyond_network(potential: Potential, frames: Sequence[Frame]) -> list[Frame]:
    """The frames, with what the network predicts beyond isolated atoms subtracted from their energies."""
    labelled = [frame for frame in frames if frame.has_energy]
    data = Dataset(labelled, potential.cutoff)
    network = [potential(labels.batch, forces=False).energy for labels in data.batches(BatchPlan(32, max_atoms=2000))]
    values = torch.cat(network).tolist() if network else []
    return [
        replace(frame, energy=float(frame.energy or 0.0) - value, forces=None)
        for frame, value in zip(labelled, values, strict=True)
    ]


def _carry(new: Tensor, old: Tensor, rows: list[int]) -> Tensor:
    """The old tensor, or for one with a row per element, its rows in the order of the new elements."""
    if new.shape == old.shape:
        return old
    mean = old.mean(dim=0)
    return torch.stack([old[row] if row >= 0 else mean for row in rows])


def _freeze(potential: Potential, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        matching = [p for name, p in potential.named_parameters() if pattern in name]
        if not matching:
            names = sorted({name.split(".")[1] for name, _ in potential.named_parameters()})
            raise ConfigError(
                f"finetune.freeze: no parameter's name contains '{pattern}'; there are {', '.join(names)}."
            )
        for parameter in matching:
            parameter.requires_grad_(False)
