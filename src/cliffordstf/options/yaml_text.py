"""YAML within limits: a name for a list of names for a list … stands for more than any memory holds."""

from typing import Any

import yaml

MOST = 100_000
"""Values of a config, each counted as often as it is referred to."""


def load_yaml(text: str) -> Any:
    """The values of a text.

    Raises:
        yaml.YAMLError: It is no YAML, or stands for too many values.

    Example:
        >>> load_yaml("a: [1, 2]")
        {'a': [1, 2]}
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _count(root, {})
    return yaml.safe_load(text)


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MOST + 1  # a value that holds itself
    children = node.value if isinstance(node.value, list) else []
    parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
    known[id(node)] = 1 + sum(_count(part, known) for part in parts)
    if known[id(node)] > MOST:
        raise yaml.YAMLError(f"it stands for more than {MOST} values")
    return known[id(node)]
