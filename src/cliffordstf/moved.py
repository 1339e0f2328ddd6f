"""Public names that are elsewhere now, and their old places, which still work.

A module that has lost such a name, or a file that stands where a whole module has gone, contains one line:
`__getattr__ = moved_from(__name__)`. Modules with other contents hide it from type checkers, which would believe that
any name exists.
"""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

MOVED = {
    "cliffordstf.kernels.EdgeIndex": "cliffordstf.graph.EdgeIndex",
    "cliffordstf.model.compiled.export": "cliffordstf.engine.traced.export",
    "cliffordstf.model.compiled.trace": "cliffordstf.engine.traced.trace",
    "cliffordstf.model.committee.Committee": "cliffordstf.model.ensemble.Ensemble",
}
"""Old place of a name -> new place."""


def moved_from(module: str) -> Callable[[str], Any]:
    """Module-level `__getattr__` that finds the names of `MOVED` and warns.

    Args:
        module: Dotted name of the old module.
    """

    def find(name: str) -> Any:
        old = f"{module}.{name}"
        if old not in MOVED:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        new = MOVED[old]
        warnings.warn(f"{old} is now {new}; the old name will be removed.", DeprecationWarning, stacklevel=2)
        place, _, new_name = new.rpartition(".")
        return getattr(import_module(place), new_name)

    return find
