"""Peers by name: which there are, whether they can be imported, and how to build one."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import ArrayLike
from pydantic import ValidationError

from cliffordstf.data.structure import element_numbers
from cliffordstf.errors import ConfigError
from cliffordstf.model.potential import Potential
from cliffordstf.model.reference import AtomicReference
from cliffordstf.text import did_you_mean
from cliffordstf.zoo import dimenet, gotennet, mace, nequip, painn, schnet, tensornet, torchmd_et, visnet
from cliffordstf.zoo.family import Family, PeerConfig
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
)
_FAMILY_OF: dict[str, Family] = {name: family for family in FAMILIES for name in family.presets}


def names() -> tuple[str, ...]:
    """Names of all peers, whether or not their packages are installed."""
    return tuple(_FAMILY_OF)


def available(name: str) -> str | None:
    """None if the peer can be built here, else one sentence that says why not and what to install."""
    family = _family(name)
    try:
        family.load()
    except ModuleNotFoundError as error:
        return (
            f"the peer '{name}' needs {family.packages[0]}, but there is no module '{error.name}' here; run 'make "
            f"peers', or install {' '.join(family.packages)} as constraints-peers.txt says."
        )
    except Exception as error:  # what an incompatible package raises when it is imported is anyone's guess
        return (
            f"the peer '{name}' needs {family.packages[0]}, which is installed but cannot be imported "
            f"({type(error).__name__}: {error}); install as constraints-peers.txt says."
        )
    return None


def config(name: str, elements: ArrayLike | None, **overrides: Any) -> PeerConfig:
    """Hyper-parameters of a peer, with some fields replaced.

    Raises:
        ConfigError: There is no such peer or field, or a value is not valid.
    """
    family = _family(name)
    values = {**family.presets[name], "elements": element_numbers(elements), **overrides}
    try:
        return family.config(**values)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]) if first["loc"] else "options"
        if first["type"] == "extra_forbidden":
            nearest = did_you_mean(option, family.config.model_fields)
            raise ConfigError(f"the peer '{name}' has no option '{option}'{nearest}.") from None
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"option '{option}' of the peer '{name}': {message[0].lower()}{message[1:]}.") from None


def build(
    name: str,
    elements: ArrayLike | None,
    *,
    cutoff: float = 5.0,
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
        cutoff: Å.
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
    chosen = config(name, elements, cutoff=cutoff, average_neighbours=average_neighbours, **overrides)
    problem = available(name)
    if problem:
        raise ConfigError(problem)
    family = _family(name)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        with contained(dtype):
            model = family.make(chosen).to(dtype)
    reference = AtomicReference(chosen.elements, atomic_energies, energy_scale)
    return Potential(model, chosen.elements, chosen.cutoff, family.forces, reference)


def _family(name: str) -> Family:
    if name not in _FAMILY_OF:
        raise ConfigError(
            f"there is no peer '{name}'{did_you_mean(name, _FAMILY_OF)}; choose one of {', '.join(names())}."
        )
    return _FAMILY_OF[name]
