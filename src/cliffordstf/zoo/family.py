"""What an adapter declares about a family of peers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import nn


class PeerConfig(BaseModel):
    """What every peer has; each family adds its hyper-parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    elements: tuple[int, ...] = Field(min_length=1, description="Atomic numbers, in the order of the species index.")
    cutoff: float = Field(5.0, gt=0, description="Radius of the neighbourhood, Å.")
    average_neighbours: float = Field(
        15.0, gt=0, description="Typical number of neighbours; families that do not normalise their sums ignore it."
    )


@dataclass(frozen=True)
class Family:
    """A family of peers behind one adapter.

    Attributes:
        packages: What has to be installed, as pip requirements; the first is the peer itself.
        load: Imports everything the adapter needs from upstream; raises ImportError.
        config: Class of the hyper-parameters.
        make: Config -> energy model, see `cliffordstf.model.output.EnergyModel`. Runs inside `upstream.contained`.
        presets: Name of each peer -> the fields that differ from the defaults of `config`.
        forces: Where the forces of the peer come from.
    """

    packages: tuple[str, ...]
    load: Callable[[], Any]
    config: type[PeerConfig]
    make: Callable[[Any], nn.Module]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    forces: Literal["conservative", "direct"] = "conservative"
