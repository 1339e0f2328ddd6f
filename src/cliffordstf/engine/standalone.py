"""Packages that need neither Python nor this package: potentials in plain operators of PyTorch, compiled.

The program takes atoms and half a neighbour list, which is all that a molecular dynamics code has.
"""

import copy
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as sizes

from cliffordstf.data.batch import Batch
from cliffordstf.engine.traced import program_state, trace
from cliffordstf.errors import ConfigError
from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels import use_plain_pytorch


class Standalone(nn.Module):
    """The traced graph of a potential with its weights inside, a function of one structure and its pairs.

    Args:
        graph: Of `trace`, for a batch of one structure.
        state: Of `program_state`.
    """

    def __init__(self, graph: nn.Module, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.program = graph
        self._places = {name: name.replace(".", "_") for name in state}
        for name, place in self._places.items():
            self.register_buffer(place, state[name].detach().clone())

    def forward(self, numbers: Tensor, positions: Tensor, cell: Tensor, pairs: Tensor, shifts: Tensor) -> list[Tensor]:
        """Energy (1,), atomic energies (atoms,), forces (atoms, 3) and, if traced so, stress (1, 3, 3); eV and Å.

        Args:
            numbers: Atomic numbers, int64 (atoms,).
            positions: Å, float64 (atoms, 3).
            cell: Lattice vectors as rows, Å, float64 (1, 3, 3).
            pairs: Receiver and sender of every pair of neighbours, each pair once, int64 (pairs, 2).
            shifts: Whole lattice vectors added to the sender, float64 (pairs, 3).
        """
        state = {name: getattr(self, place) for name, place in self._places.items()}
        edges, of_edges = directed(pairs, shifts, numbers)
        pbc = torch.ones(1, 3, dtype=torch.bool, device=numbers.device)
        batch = [numbers, positions, cell, pbc, torch.zeros_like(numbers), of_edges, *edges]
        found: list[Tensor] = self.program(state, batch)
        return found


def directed(pairs: Tensor, shifts: Tensor, numbers: Tensor) -> tuple[EdgeIndex, Tensor]:
    """Both edges of every pair, sorted by receiver, and their shifts, by operators that every compiler can trace.

    Args:
        pairs, shifts, numbers: As for `Standalone.forward`.
    """
    count = pairs.shape[0]
    receivers, order = torch.sort(torch.cat([pairs[:, 0], pairs[:, 1]]), stable=True)
    senders = torch.cat([pairs[:, 1], pairs[:, 0]]).index_select(0, order)
    place = torch.argsort(order)
    ends = torch.stack([place[:count], place[count:]], dim=1)
    backward = order >= count
    pair = torch.where(backward, order - count, order)
    reverse = place.index_select(0, torch.where(backward, order - count, order + count))
    atoms = torch.arange(numbers.shape[0] + 1, device=numbers.device)
    row_pointers = torch.searchsorted(receivers, atoms)
    edges = EdgeIndex(senders, receivers, row_pointers, reverse, pair, backward.to(torch.uint8), ends)
    return edges, torch.cat([shifts, -shifts]).index_select(0, order)


def compile_package(potential: nn.Module, example: Batch, path: Path, stress: bool = False) -> None:
    """Compile a potential into an AOTInductor package that runs without Python and without this package.

    Args:
        potential: Any that plain PyTorch can run.
        example: One structure that is periodic if those of the package are.
        path: File to write.
        stress: Whether the package computes stress, too.

    Raises:
        ConfigError: The example is not one structure.
    """
    if example.size != 1:
        raise ConfigError("a package is made for one structure at a time; give one structure as the example.")
    plain = copy.deepcopy(potential)
    use_plain_pytorch(plain)
    program = Standalone(trace(plain, example, stress), program_state(plain))
    straight = example.edges.pair_edges[:, 0]
    pairs = torch.stack([example.receivers[straight], example.senders[straight]], dim=1)
    tensors = (example.numbers, example.positions, example.cell, pairs, example.shifts[straight])
    auto = torch.export.Dim.AUTO
    shapes = ({0: auto}, {0: auto}, None, {0: auto}, {0: auto})
    with torch.no_grad(), sizes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        exported = torch.export.export(program, tensors, dynamic_shapes=shapes, strict=False)
        with tempfile.TemporaryDirectory() as folder:  # the compiler wants a name that ends in .pt2
            package = torch._inductor.aoti_compile_and_package(exported, package_path=str(Path(folder) / "model.pt2"))
            shutil.copyfile(package, path)
