"""From a config or a preset's name to a potential."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from cliffordstf.data.structure import element_numbers
from cliffordstf.engine.choose import EngineName
from cliffordstf.errors import ConfigError
from cliffordstf.model.config import AnyConfig, DefaultConfig, PaperConfig
from cliffordstf.model.default import DefaultModel
from cliffordstf.model.family import FamilyConfig, force_mode, make_family_model
from cliffordstf.model.paper import PaperModel
from cliffordstf.model.potential import Potential
from cliffordstf.model.presets import preset
from cliffordstf.model.reference import AtomicReference
from cliffordstf.model.short_range import ShortRange


def build(
    name: str = "default",
    elements: ArrayLike | None = None,
    *,
    seed: int | None = None,
    atomic_energies: Mapping[int, float] | None = None,
    energy_scale: float = 1.0,
    engine: EngineName = "auto",
    **overrides: Any,
) -> Potential:
    """An untrained potential of a named preset.

    Args:
        name: For example `default`, `default/large`, `paper/full`; see `cliffordstf.model.presets.PRESETS`.
        elements: Chemical symbols or atomic numbers; by default elements 1 to 100.
        seed: Seed for the initial weights; the global random state is left as it was.
        atomic_energies: Energy of each isolated atom by atomic number, eV.
        energy_scale: eV per unit of the model's output.
        engine: What runs it, see `Potential.engine`.
        overrides: Fields of the config, for example `channels=32`, `forces="conservative"`.
    """
    config = preset(name, elements=element_numbers(elements), **overrides)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return build_from_config(config, AtomicReference(config.elements, atomic_energies, energy_scale), engine)


def build_from_config(
    config: AnyConfig, reference: AtomicReference | None = None, engine: EngineName = "auto"
) -> Potential:
    """An untrained potential of a config."""
    model: nn.Module
    match config:
        case PaperConfig():
            model, forces = PaperModel(config), config.forces
        case DefaultConfig():
            model, forces = DefaultModel(config), config.forces
        case FamilyConfig():
            model, forces = make_family_model(config), force_mode(config)
    short_range = None
    if config.repulsion != "none":
        if config.pooling == "mean":
            raise ConfigError("model.repulsion adds energies of pairs, which model.pooling=mean cannot hold; drop one.")
        short_range = ShortRange(config.elements, config.repulsion_distances)
    return Potential(model, config.elements, config.cutoff, forces, reference, config.pooling, short_range, engine)
