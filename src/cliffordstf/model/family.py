"""Models beside this package's own: a family says how to build some energy model, and is then used like any preset.

A family that is registered can be built, trained, saved, loaded and benchmarked by its presets' names. The peers of
`cliffordstf.zoo` are such families, and so are users' own models.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from torch import nn

from cliffordstf.errors import ConfigError
from cliffordstf.model.options import AnyModelOptions
from cliffordstf.options import parse_options
from cliffordstf.options.text import did_you_mean


class FamilyConfig(AnyModelOptions):
    """What every family has; each adds its hyper-parameters."""

    profile: Literal["family"] = "family"
    name: str = Field(description="Of the preset, which says the family.")
    elements: tuple[int, ...] = Field(
        default=tuple(range(1, 101)), min_length=1, description="Atomic numbers, in the order of the species index."
    )
    cutoff: float = Field(5.0, gt=0, description="Radius of the neighbourhood, Å.")
    average_neighbours: float = Field(
        15.0, gt=0, description="Typical number of neighbours; families that do not normalise their sums ignore it."
    )


@dataclass(frozen=True)
class Family:
    """A family of models behind one adapter.

    Attributes:
        packages: What has to be installed, as pip requirements; the first is the model's own package.
        load: Imports everything the adapter needs from outside; raises ImportError.
        config: Class of the hyper-parameters.
        make: Config -> energy model, see `cliffordstf.model.output.EnergyModel`.
        presets: Name of each model -> the fields that differ from the defaults of `config`.
        forces: Where the forces come from, unless the config has a field `forces` of its own that says so.
    """

    packages: tuple[str, ...]
    load: Callable[[], Any]
    config: type[FamilyConfig]
    make: Callable[[Any], nn.Module]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    forces: Literal["conservative", "direct"] = "conservative"


_family_of: dict[str, Family] = {}


def register(family: Family) -> None:
    """Make the presets of a family known.

    Raises:
        ConfigError: Another family has a preset of that name.
    """
    for name in family.presets:
        if _family_of.get(name, family) is not family:
            raise ConfigError(f"there is a model '{name}' already; give the preset another name.")
    _family_of.update(dict.fromkeys(family.presets, family))


OWN = "CLIFFORDSTF_FAMILIES"
"""Environment variable that names users' own modules, or files ending in .py, separated by commas. Processes that a
benchmark starts inherit it."""

PEERS = "cliffordstf.zoo"
"""Registers its families when it is imported; it imports this module, which therefore does so by name and late."""

_imported: set[str] = set()


def _import_families() -> None:
    """Import the peers and what the environment names, once."""
    importlib.import_module(PEERS)
    for name in filter(None, map(str.strip, os.environ.get(OWN, "").split(","))):
        if name in _imported:
            continue
        _imported.add(name)
        try:
            if name.endswith(".py"):
                _import_file(Path(name))
            else:
                importlib.import_module(name)
        except Exception as error:  # whatever the user's code raises
            raise ConfigError(
                f"{OWN} names '{name}', which cannot be imported ({type(error).__name__}: {error}); give modules, or "
                "files ending in .py, separated by commas."
            ) from error


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def family_names() -> tuple[str, ...]:
    """Presets of all families, whether or not their packages are installed."""
    _import_families()
    return tuple(_family_of)


def find_family(name: str) -> Family:
    """The family of a preset.

    Raises:
        ConfigError: There is none.
    """
    _import_families()
    if name not in _family_of:
        raise ConfigError(
            f"there is no model '{name}'{did_you_mean(name, _family_of)}; choose one of {', '.join(_family_of)}."
        )
    return _family_of[name]


def available(name: str) -> str | None:
    """None if the model can be built here, else one sentence that says why not and what to install."""
    family = find_family(name)
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


def family_config(name: str, **values: Any) -> FamilyConfig:
    """Hyper-parameters of a preset, with some fields replaced.

    Raises:
        ConfigError: There is no such preset or field, or a value is not valid.
    """
    family = find_family(name)
    return parse_options(family.config, {**family.presets[name], "name": name, **values}, "model")


def force_mode(config: FamilyConfig) -> Literal["conservative", "direct"]:
    """Where the forces of a model come from: its config's own `forces` in families that leave a choice."""
    chosen: Literal["conservative", "direct"] = getattr(config, "forces", find_family(config.name).forces)
    return chosen


def make_family_model(config: FamilyConfig) -> nn.Module:
    """The untrained model of a config.

    Raises:
        ConfigError: The package it comes from is missing.
    """
    problem = available(config.name)
    if problem:
        raise ConfigError(problem)
    return find_family(config.name).make(config)
