"""Models by name."""

from typing import Any

from cliffordstf.errors import ConfigError
from cliffordstf.model.config import AnyConfig, ModelConfig, parse_config
from cliffordstf.model.family import FamilyConfig, family_config, family_names
from cliffordstf.options.text import did_you_mean

_OFF: dict[str, Any] = {
    "profile": "paper",
    "stf_degrees": (),
    "routing": "none",
    "cross_track": False,
    "hodge_forces": False,
}
_STF2: dict[str, Any] = {"profile": "paper", "channels": 64, "hidden": 64, "stf_degrees": (2,), "routing": "none"}

PRESETS: dict[str, dict[str, Any]] = {
    "default": {"profile": "default"},
    "default/small": {"profile": "default", "channels": 24, "lmax": 2, "body_order": 3, "radial_width": 32},
    "default/base": {"profile": "default"},
    "default/large": {"profile": "default", "channels": 96, "lmax": 3, "hidden": 64},
    "default/1m": {"profile": "default", "channels": 136, "hidden": 64},
    "default/10m": {"profile": "default", "channels": 456, "hidden": 64},
    "paper/full": {"profile": "paper"},
    "paper/stf2-static": {**_STF2, "routing": "static"},
    "paper/scaffold": {**_OFF, "channels": 76, "hidden": 76},
    "paper/stf2-learned": {**_STF2, "routing": "learned"},
    "paper/stf2-stf3": {"profile": "paper", "routing": "none"},
    "paper/full-no-cross": {"profile": "paper", "cross_track": False},
    "paper/hodge-only": {**_OFF, "channels": 76, "hidden": 76, "hodge_forces": True},
    "paper/stf2-no-hodge": {**_STF2, "hodge_forces": False},
    "paper/stf2-no-cross": {**_STF2, "cross_track": False},
    "paper/stf2": _STF2,
    "paper/output-only": {**_OFF, "channels": 76, "hidden": 76, "stf_degrees": (2,), "stf_at": "output"},
    "paper/clifford": {**_OFF, "channels": 80, "hidden": 80, "max_grade": 1, "edge_stf2": False},
    "paper/clifford-md17": {**_OFF, "channels": 48, "hidden": 48, "max_grade": 1, "edge_stf2": False},
    "paper/full-10m": {"profile": "paper", "channels": 188, "hidden": 256},
    "paper/clifford-10m": {**_OFF, "channels": 200, "hidden": 256, "layers": 6},
}
"""Name -> the fields that differ from the profile's defaults. The paper's ablation has twelve rows, from
`paper/full` to
`paper/clifford`; where its text and its settings table disagree (routing of `full-no-cross`) the ablation table
rules. `default/1m` and `default/10m` have that many parameters for H, C, N and O, and differ in width alone."""

ABLATION: tuple[str, ...] = (
    "paper/full",
    "paper/stf2-static",
    "paper/scaffold",
    "paper/stf2-learned",
    "paper/stf2-stf3",
    "paper/full-no-cross",
    "paper/hodge-only",
    "paper/stf2-no-hodge",
    "paper/stf2-no-cross",
    "paper/stf2",
    "paper/output-only",
    "paper/clifford",
)


def preset(name: str, **overrides: Any) -> AnyConfig:
    """Config of a preset, of this package or of a registered family, with some fields replaced.

    Raises:
        ConfigError: There is no such preset or field, or a value is not valid.
    """
    return family_config(name, **overrides) if name in family_names() else own_preset(name, **overrides)


def own_preset(name: str, **overrides: Any) -> ModelConfig:
    """Config of a preset of this package."""
    if name not in PRESETS:
        every = [*PRESETS, *family_names()]
        raise ConfigError(
            f"there is no preset '{name}'{did_you_mean(name, every)}; choose one of {', '.join(PRESETS)}, or a peer "
            "that 'cliffordstf presets' lists."
        )
    config = parse_config({**PRESETS[name], **overrides})
    assert not isinstance(config, FamilyConfig)
    return config
