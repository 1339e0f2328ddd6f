"""CliffordSTF: interatomic potentials from a Cl(3,0) multivector coupled to symmetric-traceless tensor tracks.

Public names and subpackages are imported when they are first used. Importing the package changes nothing in its
process and does not load torch, so the command line can still set what torch reads when it is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cliffordstf.version import __version__

if TYPE_CHECKING:  # what `__getattr__` does, for type checkers; they cannot see that the package `train` is callable
    from cliffordstf.api import evaluate, predict, train
    from cliffordstf.data.batch import Batch, make_batch
    from cliffordstf.data.structure import Structure
    from cliffordstf.engine.prediction import Prediction
    from cliffordstf.errors import CliffordSTFError, ConfigError, StructureError, UnknownElementError
    from cliffordstf.integrations.ase import Calculator
    from cliffordstf.model.build import build, build_from_config
    from cliffordstf.model.ensemble import Ensemble
    from cliffordstf.model.potential import Potential
    from cliffordstf.model.presets import PRESETS
    from cliffordstf.model.shipped import load

__all__ = [
    "PRESETS",
    "Batch",
    "Calculator",
    "CliffordSTFError",
    "ConfigError",
    "Ensemble",
    "Potential",
    "Prediction",
    "Structure",
    "StructureError",
    "UnknownElementError",
    "__version__",
    "build",
    "build_from_config",
    "evaluate",
    "load",
    "make_batch",
    "predict",
    "train",
]

_MODULE_OF = {
    "PRESETS": "model.presets",
    "Batch": "data.batch",
    "Calculator": "integrations.ase",
    "CliffordSTFError": "errors",
    "ConfigError": "errors",
    "Ensemble": "model.ensemble",
    "Potential": "model.potential",
    "Prediction": "engine.prediction",
    "Structure": "data.structure",
    "StructureError": "errors",
    "UnknownElementError": "errors",
    "build": "model.build",
    "build_from_config": "model.build",
    "evaluate": "api",
    "load": "model.shipped",
    "make_batch": "data.batch",
    "predict": "api",
}


if not TYPE_CHECKING:  # they would believe that any name exists

    def __getattr__(name: str) -> Any:
        """A public name or a subpackage, imported now."""
        if name in _MODULE_OF:
            value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
            globals()[name] = value
            return value
        if not name.startswith("_"):
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*globals(), *__all__})
