"""Several potentials as one: the mean of what they say."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.errors import ConfigError
from cliffordstf.model.potential import Potential, Prediction


class Committee(nn.Module):
    """The mean of potentials that differ in their random start: what they disagree about cancels in part.

    For dynamics with the spread of the members as an error bar, give them to `Calculator` together.

    Args:
        members: Potentials for the same elements and with the same cutoff.
    """

    def __init__(self, members: Sequence[Potential]) -> None:
        super().__init__()
        if not members:
            raise ConfigError("a committee needs at least one potential.")
        if len({(member.elements, member.cutoff) for member in members}) > 1:
            raise ConfigError("the members of a committee must know the same elements and have the same cutoff.")
        self.members = nn.ModuleList(members)
        self.elements, self.cutoff = members[0].elements, members[0].cutoff

    @property
    def species_of_number(self) -> Tensor:
        """As of the first member."""
        first = self.members[0]
        assert isinstance(first, Potential)
        return first.species_of_number

    def forward(self, batch: Batch, forces: bool = True, stress: bool = False) -> Prediction:
        """Evaluate a batch with every member."""
        found: list[Prediction] = [member(batch, forces=forces, stress=stress) for member in self.members]
        return Prediction(
            energy=torch.stack([prediction.energy for prediction in found]).mean(0),
            atom_energies=torch.stack([prediction.atom_energies for prediction in found]).mean(0),
            forces=_mean([prediction.forces for prediction in found]),
            stress=_mean([prediction.stress for prediction in found]),
        )


def _mean(tensors: list[Tensor | None]) -> Tensor | None:
    present = [tensor for tensor in tensors if tensor is not None]
    return torch.stack(present).mean(0) if present else None
