"""The one typed description of a model: validation, defaults, documentation and JSON schema come from it."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from cliffordstf.errors import ConfigError
from cliffordstf.model.family import FamilyConfig, family_config
from cliffordstf.model.options import AnyModelOptions
from cliffordstf.options import parse_options
from cliffordstf.options.text import did_you_mean

Forces = Literal["conservative", "direct"]


class CommonConfig(AnyModelOptions):
    """What every profile has."""

    elements: tuple[int, ...] = Field(
        default=tuple(range(1, 101)), description="Atomic numbers the model knows; by default elements 1 to 100."
    )
    cutoff: float = Field(gt=0, description="Radius of the neighbourhood, Å.")
    channels: int = Field(ge=1, description="Channels of every track.")
    layers: int = Field(ge=1, description="Message-passing layers.")


class PaperConfig(CommonConfig):
    """CliffordSTF as the paper describes it, flag by flag."""

    profile: Literal["paper"] = "paper"
    cutoff: float = Field(6.0, gt=0, description="Radius of the neighbourhood, Å.")
    channels: int = Field(60, ge=1, description="Channels of every track; a multiple of the heads.")
    layers: int = Field(5, ge=1, description="Message-passing layers.")
    hidden: int = Field(60, ge=1, description="Hidden width of the readouts.")
    basis: int = Field(50, ge=2, description="Gaussian radial basis functions between 0 and the cutoff.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    max_grade: int = Field(3, ge=1, le=3, description="Highest grade of the multivector track.")
    stf_degrees: tuple[int, ...] = Field(
        (2, 3), description="Symmetric-traceless tracks: () is the paper's 'none', (2,) 'stf2', (2, 3) 'stf2+stf3'."
    )
    edge_stf2: bool = Field(True, description="Whether edges carry the STF2 feature of their direction.")
    cross_track: bool = Field(True, description="Feed S·v of the sender into grade 1.")
    routing: Literal["none", "static", "learned"] = Field("learned", description="Gates on the STF tracks.")
    hodge_forces: bool = Field(True, description="Add Hodge duals of bivectors to the direct-force head.")
    body_order: int = Field(3, ge=2, le=4, description="Highest correlation order of the many-body product.")
    gp_readout: bool = Field(False, description="Add grade-0 scalars of GP(W h, h) to the energy head.")
    stf_at: Literal["messages", "output"] = Field(
        "messages", description="'output' keeps STF tracks out of message passing and makes STF2 for the readout only."
    )
    forces: Forces = Field("direct", description="'direct' has a force head, 'conservative' differentiates the energy.")

    @model_validator(mode="after")
    def _check(self) -> "PaperConfig":
        if self.channels % self.heads:
            raise ValueError(f"channels={self.channels} must be a multiple of heads={self.heads}")
        if self.stf_degrees != tuple(range(2, 2 + len(self.stf_degrees))) or len(self.stf_degrees) > 3:
            raise ValueError(f"stf_degrees={self.stf_degrees} must be (), (2,), (2, 3) or (2, 3, 4)")
        if self.routing != "none" and not self.stf_degrees:
            raise ValueError("routing gates the STF tracks: set routing='none' or give stf_degrees")
        if self.routing == "learned" and self.channels < 4:
            raise ValueError("learned routing needs at least 4 channels")
        return self


class DefaultConfig(CommonConfig):
    """The recommended model: O(3)-equivariant, conservative, smooth to second order at the cutoff."""

    profile: Literal["default"] = "default"
    cutoff: float = Field(5.0, gt=0, description="Radius of the neighbourhood, Å.")
    channels: int = Field(48, ge=1, description="Channels of every track.")
    layers: int = Field(2, ge=1, description="Message-passing layers.")
    lmax: int = Field(3, ge=1, le=4, description="Highest degree of edge tensors and of tracks within a layer.")
    node_lmax: int | None = Field(
        None, ge=0, le=4, description="Highest degree that passes from layer to layer; null for lmax."
    )
    pseudoscalar: bool = Field(False, description="Carry the grade-3 track as well.")
    body_order: int = Field(4, ge=2, le=5, description="Highest correlation order of the many-body product.")
    basis: int = Field(8, ge=1, description="Bessel radial basis functions.")
    radial_width: int = Field(64, ge=1, description="Hidden width of the networks that make the radial weights.")
    radial_depth: int = Field(2, ge=1, le=4, description="Hidden layers of those networks.")
    radial_functions: int = Field(16, ge=1, description="Learned radial functions that all weights are made of.")
    radial_elements: bool = Field(True, description="Whether radial functions depend on the elements of a pair.")
    radial_warp: float | None = Field(
        3.0,
        gt=0,
        allow_inf_nan=False,
        description="Radial functions are fine at short distances and smooth at long ones: functions of 1 - "
        "exp(-d/warp) instead of the distance d, Å; null for d.",
    )
    envelope_power: int = Field(6, ge=3, description="Power p of the polynomial cutoff envelope.")
    hidden: int = Field(32, ge=1, description="Hidden width of the last readout.")
    average_neighbours: float = Field(
        15.0, gt=0, description="Typical number of neighbours; sums over neighbours are divided by its square root."
    )
    forces: Literal["conservative"] = Field("conservative", description="Forces are the gradient of the energy.")


ModelConfig = PaperConfig | DefaultConfig
AnyConfig = ModelConfig | FamilyConfig

PROFILES: dict[Any, type[ModelConfig]] = {"paper": PaperConfig, "default": DefaultConfig}
_CHOICES = " or ".join(f"'{name}'" for name in PROFILES)

_adapter: TypeAdapter[ModelConfig] = TypeAdapter(Annotated[ModelConfig, Field(discriminator="profile")])


def parse_config(values: dict[str, Any]) -> AnyConfig:
    """Validate a mapping into a config: of this package's models, or of a family that is registered.

    Raises:
        ConfigError: Names the first bad field and, for a misspelt one, the nearest valid name.
    """
    if values.get("profile") == "family":
        return family_config(**values)
    profile = values.get("profile")
    if profile not in PROFILES:
        raise ConfigError(
            f"profile={profile!r} is not a model{did_you_mean(str(profile), PROFILES)}; choose {_CHOICES}."
        )
    return parse_options(PROFILES[profile], values, "model")


def json_schema() -> dict[str, Any]:
    """JSON schema of a model config, for editors and for the documentation."""
    return _adapter.json_schema()
