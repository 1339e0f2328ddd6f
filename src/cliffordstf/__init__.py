"""CliffordSTF: interatomic potentials from a Cl(3,0) multivector coupled to symmetric-traceless tensor tracks."""

import os
from typing import TYPE_CHECKING

# How long OpenMP threads spin before they sleep, about 0.1 ms: waking a sleeper takes as long as a small step's work,
# and endless spinning slows everything down as soon as another program wants the same cores. Has an effect only if
# torch is not loaded yet, and never overrides the user's choice.
os.environ.setdefault("GOMP_SPINCOUNT", "100000")

from cliffordstf.allocator import keep_freed_memory
from cliffordstf.api import evaluate, predict
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
from cliffordstf.version import __version__
from cliffordstf.zoo import names as _peers  # noqa: F401 - makes the peers known by name; imports none of them

if TYPE_CHECKING:  # the package of this name is callable, which type checkers cannot see
    from cliffordstf.api import train
else:
    from cliffordstf import train

keep_freed_memory()

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
