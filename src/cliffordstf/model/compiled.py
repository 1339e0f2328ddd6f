"""Old place of `cliffordstf.engine.traced`; its names still work, with a warning."""

import warnings
from typing import Any

from torch import nn

from cliffordstf.data.batch import Batch
from cliffordstf.engine.prediction import Prediction, Wanted
from cliffordstf.engine.traced import TracedEngine
from cliffordstf.model.potential import Potential
from cliffordstf.moved import moved_from

__getattr__ = moved_from(__name__)


class CompiledPotential(nn.Module):
    """A potential on the traced engine; use `potential.use("traced")` instead.

    Args:
        potential: Shares its weights with the compiled code.
        options: Passed to `torch.compile`.
    """

    def __init__(self, potential: Potential, **options: Any) -> None:
        super().__init__()
        text = "CompiledPotential(potential) is now potential.use('traced'); the old name will be removed."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        self.potential, self._engine = potential, TracedEngine(**options)

    def batch(self, structures: Any) -> Batch:
        """Make a batch with the potential's cutoff, on its device."""
        return self.potential.batch(structures)

    def forward(self, batch: Batch, forces: bool = True, stress: bool = False, train: bool = False) -> Prediction:
        """Evaluate a batch; see `Potential.forward`."""
        return self._engine.run(self.potential, batch, Wanted(forces, stress, train))
