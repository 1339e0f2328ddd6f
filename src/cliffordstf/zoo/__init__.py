"""Other people's models behind the same `Potential`: thin adapters around maintained packages, or our own from a paper.

Importing this package imports none of theirs; that happens in `available` and `build`.
"""

from cliffordstf.zoo.registry import available, build, config, names

__all__ = ["available", "build", "config", "names"]
