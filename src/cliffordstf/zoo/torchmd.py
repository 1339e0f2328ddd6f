"""What the adapters of the equivariant transformer and TensorNet share: importing TorchMD-NET, and its readout."""

import warnings
from typing import Any

from torch import Tensor, nn

from cliffordstf.data.batch import Batch
from cliffordstf.model.family import FamilyConfig
from cliffordstf.model.output import ModelOutput
from cliffordstf.zoo.loops import EdgesAndLoops
from cliffordstf.zoo.upstream import lent, upstream

PACKAGES = ("torchmd-net==3.1.0",)


def load(module: str) -> Any:
    """A module of `torchmdnet.models`, without Warp.

    Warp serves a neighbour search, which is not used here, and fused kernels for TensorNet that upstream replaces by
    PyTorch where they are missing. It prints when it starts, compiles for tens of seconds and writes into the home
    directory, for a step that is about 15 % faster on a CPU.
    """
    search = lent("torchmdnet.extensions.ops", get_neighbor_pairs_kernel=None)
    with search, lent("torchmdnet.extensions.warp_ops"):
        return upstream(f"torchmdnet.models.{module}")


class TorchMDModel(nn.Module):
    """A TorchMD-NET representation with its scalar readout.

    Args:
        config: Hyper-parameters, kept for reference.
        representation: Has a module `distance`, which is replaced.
        readout: An output model of TorchMD-NET, used up to its sum over atoms.
    """

    def __init__(self, config: FamilyConfig, representation: nn.Module, readout: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.representation = representation
        self.readout = readout
        self.representation.distance = EdgesAndLoops(readout)

    def forward(self, batch: Batch, species: Tensor) -> ModelOutput:
        """Atomic energies of a batch; the species index numbers the embedding, (atoms,)."""
        scalars, vectors, *_ = self.representation(species, batch, batch.structure_of_atom)
        pre_reduce: Any = self.readout.pre_reduce
        with warnings.catch_warnings():
            # Upstream warns of every atom without neighbours.
            warnings.filterwarnings("ignore", message="Skipping gradients", category=UserWarning)
            energies = pre_reduce(scalars, vectors, species, None, batch.structure_of_atom)
        return ModelOutput(atom_energies=energies[:, 0])
