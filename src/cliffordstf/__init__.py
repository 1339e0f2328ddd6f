"""CliffordSTF: interatomic potentials from a Cl(3,0) multivector coupled to symmetric-traceless tensor tracks."""

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.structure import Structure
from cliffordstf.errors import CliffordSTFError, ConfigError, StructureError, UnknownElementError
from cliffordstf.model.build import build, build_from_config
from cliffordstf.model.potential import Potential, Prediction
from cliffordstf.model.presets import PRESETS
from cliffordstf.version import __version__

__all__ = [
    "PRESETS",
    "Batch",
    "CliffordSTFError",
    "ConfigError",
    "Potential",
    "Prediction",
    "Structure",
    "StructureError",
    "UnknownElementError",
    "__version__",
    "build",
    "build_from_config",
    "make_batch",
]
