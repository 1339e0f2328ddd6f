"""Several potentials as one: mean and spread of their predictions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.engine.prediction import Prediction
from cliffordstf.errors import ConfigError
from cliffordstf.model.potential import Potential


class Ensemble(nn.Module):
    """The mean of potentials that differ in their random start: their independent errors cancel in part.

    Predictions also hold the sample standard deviation over the members, which grows away from the training data.

    Args:
        members: Potentials for the same elements and with the same cutoff.

    Example:
        >>> import cliffordstf
        >>> pair = Ensemble([cliffordstf.load("rmd17-ethanol"), cliffordstf.load("rmd17-ethanol-2")])
        >>> len(pair.members)
        2
    """

    def __init__(self, members: Sequence[Potential]) -> None:
        super().__init__()
        if not members:
            raise ConfigError("an ensemble needs at least one potential.")
        if len({(member.elements, member.cutoff) for member in members}) > 1:
            raise ConfigError("the members of an ensemble must have the same elements and the same cutoff.")
        self.members = nn.ModuleList(members)
        self.elements, self.cutoff = members[0].elements, members[0].cutoff

    @property
    def species_of_number(self) -> Tensor:
        """As of the first member."""
        first = self.members[0]
        assert isinstance(first, Potential)
        return first.species_of_number

    def extrapolation(self, batch: Batch) -> Tensor | None:
        """The largest distance from the training set over the members, (atoms,); see `Potential.extrapolation`."""
        found = [member.extrapolation(batch) for member in self.members if isinstance(member, Potential)]
        known = [values for values in found if values is not None]
        return torch.stack(known).amax(dim=0) if len(known) == len(found) else None

    def forward(self, batch: Batch, forces: bool = True, stress: bool = False) -> Prediction:
        """Evaluate a batch with every member."""
        found: list[Prediction] = [member(batch, forces=forces, stress=stress) for member in self.members]
        energies = [prediction.energy for prediction in found]
        all_forces = [prediction.forces for prediction in found]
        return Prediction(
            energy=torch.stack(energies).mean(0),
            atom_energies=torch.stack([prediction.atom_energies for prediction in found]).mean(0),
            forces=_mean(all_forces),
            stress=_mean([prediction.stress for prediction in found]),
            energy_std=_std(energies),
            forces_std=_std(all_forces),
        )


def _present(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _mean(tensors: Sequence[Tensor | None]) -> Tensor | None:
    present = _present(tensors)
    return torch.stack(present).mean(0) if present else None


def _std(tensors: Sequence[Tensor | None]) -> Tensor | None:
    present = _present(tensors)
    return torch.stack(present).std(0) if len(present) > 1 else None
