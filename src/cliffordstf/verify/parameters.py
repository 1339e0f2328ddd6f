"""Parameters counted by block, beside those of the paper's public release."""

import re

from torch import nn

BLOCKS: tuple[tuple[str, str], ...] = (
    ("element embedding", r"^embedding\."),
    ("edge feature networks", r"edge_embedding\.|\.edge_heads\."),
    ("geometric products W1, W2", r"\.weights\.(left|right)_"),
    ("skip", r"\.weights\.skip_"),
    ("attention", r"\.attention\."),
    ("STF2 messages", r"\.weights\.(generate|send|edge)_stf2|\.weights\.edge_vector"),
    ("STF3 messages", r"\.weights\.(generate|send)_stf3"),
    ("radial networks", r"(^|\.)radial\.|convolution\.mixing"),
    ("cross-track contraction", r"\.weights\.cross_"),
    ("many-body products", r"\.product\."),
    ("update, first linear", r"\.linear_(self|in|up|aggregate)\.|\.skip\.|layers\.\d+\.linears\."),
    ("update, second linear", r"\.linear_out\."),
    ("gates", r"\.gate\.gates\.|layers\.\d+\.gate\."),
    ("norm scales", r"\.norm\."),
    ("layer readouts", r"^layer_readouts\."),
    ("energy head", r"^readout\.network\."),
    ("GP readout mixing", r"^readout\.mix\."),
    ("force head", r"^force_head\."),
    ("routing", r"^router\."),
)
"""Block name -> pattern of parameter names inside the model; the first match counts."""

RELEASE: dict[str, dict[str, int]] = {
    "paper/full": {
        "element embedding": 6_000,
        "edge feature networks": 56_340,
        "geometric products W1, W2": 122_400,
        "skip": 18_000,
        "attention": 51_000,
        "STF2 messages": 36_000,
        "STF3 messages": 36_000,
        "radial networks": 33_600,
        "cross-track contraction": 18_000,
        "many-body products": 194_400,
        "update, first linear": 194_880,
        "update, second linear": 97_680,
        "gates": 139_080,
        "norm scales": 1_620,
        "layer readouts": 18_605,
        "energy head": 14_581,
        "GP readout mixing": 14_400,
        "force head": 3_841,
        "routing": 107,
    }
}
"""What the public release allocates for its 1,056,534-parameter model; 46,560 of these never receive a gradient."""


def count_by_block(model: nn.Module) -> dict[str, int]:
    """Parameters of an energy model by block; blocks that it does not have are left out."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        matches = (block for block, pattern in BLOCKS if re.search(pattern, name))
        block = next(matches, "other")
        counts[block] = counts.get(block, 0) + parameter.numel()
    order = [block for block, _ in BLOCKS] + ["other"]
    return {block: counts[block] for block in order if block in counts}


def count(module: nn.Module) -> int:
    """All parameters."""
    return sum(parameter.numel() for parameter in module.parameters())
