"""Peers by name: which there are, and how to build one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from cliffordstf.data.structure import element_numbers
from cliffordstf.errors import ConfigError
from cliffordstf.model.build import build_from_config
from cliffordstf.model.family import Family, FamilyConfig, available, family_config, find_family, register
from cliffordstf.model.potential import Potential
from cliffordstf.model.reference import AtomicReference
from cliffordstf.options.text import did_you_mean
from cliffordstf.zoo import (
    dimenet,
    equiformer,
    faenet,
    gotennet,
    ictp,
    mace,
    nequip,
    painn,
    schnet,
    tensornet,
    torchmd_et,
    visnet,
)
from cliffordstf.zoo.upstream import contained

FAMILIES: tuple[Family, ...] = (
    mace.FAMILY,
    painn.FAMILY,
    schnet.FAMILY,
    nequip.FAMILY,
    torchmd_et.FAMILY,
    tensornet.FAMILY,
    visnet.FAMILY,
    dimenet.FAMILY,
    gotennet.FAMILY,
    equiformer.FAMILY,
    faenet.FAMILY,
    ictp.FAMILY,
)


def _contained(family: Family) -> Family:
    """The family with its constructor kept from changing this process."""

    def make(config: FamilyConfig) -> nn.Module:
        dtype = torch.get_default_dtype()
        with contained(dtype):
            return family.make(config).to(dtype)

    return replace(family, make=make)


for _family in FAMILIES:
    register(_contained(_family))


def names() -> tuple[str, ...]:
    """Names of all peers, whether or not their packages are installed."""
    return tuple(name for family in FAMILIES for name in family.presets)


def config(name: str, elements: ArrayLike | None, **overrides: Any) -> FamilyConfig:
    """Hyper-parameters of a peer, with some fields replaced.

    Raises:
        ConfigError: There is no such peer or field, or a value is not valid.
    """
    if name not in names():
        raise ConfigError(
            f"there is no peer '{name}'{did_you_mean(name, names())}; choose one of {', '.join(names())}."
        )
    return family_config(name, elements=element_numbers(elements), **overrides)


def build(
    name: str,
    elements: ArrayLike | None,
    *,
    cutoff: float | None = None,
    average_neighbours: float = 15.0,
    seed: int | None = None,
    atomic_energies: Mapping[int, float] | None = None,
    energy_scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    **overrides: Any,
) -> Potential:
    """An untrained potential around a peer.

    Args:
        name: One of `names()`.
        elements: Chemical symbols or atomic numbers; None is elements 1 to 100.
        cutoff: Å; None is that of the preset.
        average_neighbours: Mean number of neighbours within the cutoff, for the families that normalise by it.
        seed: Seed for the initial weights; the global random state is left as it was.
        atomic_energies: Energy of each free atom by atomic number, eV.
        energy_scale: eV per unit of the model's output.
        dtype: Precision of weights and constants. Build in float64 rather than call `.double()` later: that keeps the
            constants of a float32 model, which are rounded to 1e-7.
        overrides: Hyper-parameters of the family's config, for example `channels=32`.

    Raises:
        ConfigError: No such peer or option, or the peer's package is missing.
    """
    if cutoff is not None:
        overrides["cutoff"] = cutoff
    chosen = config(name, elements, average_neighbours=average_neighbours, **overrides)
    reference = AtomicReference(chosen.elements, atomic_energies, energy_scale)
    default = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            return build_from_config(chosen, reference)
        finally:
            torch.set_default_dtype(default)


__all__ = ["FAMILIES", "available", "build", "config", "find_family", "names"]
