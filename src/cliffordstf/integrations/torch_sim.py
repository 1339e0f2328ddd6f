"""A model of torch-sim: batched relaxation and dynamics; `pip install 'cliffordstf[torch-sim]'`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.neighbours import NeighbourList
from cliffordstf.data.skin_list import SkinList
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError
from cliffordstf.integrations.ase import Model, inference_device, inference_potential

try:
    from torch_sim.models.interface import ModelInterface
    from torch_sim.state import SimState
except ImportError:
    raise ConfigError(
        "this needs the package torch-sim-atomistic, which is not installed: pip install 'cliffordstf[torch-sim]'."
    ) from None


class TorchSimModel(ModelInterface):  # type: ignore[misc]
    """Energies, forces and stress of a batch of systems for torch-sim, in eV, eV/Å and eV/Å³.

    Neighbour lists have a margin and are made again only for systems whose atoms have moved.

    Args:
        model: A model file, the name of a shipped model, or a `Potential`.
        device: A torch device, for example `cpu` or `cuda`.
        dtype: Of the weights, and of the results, which torch-sim keeps its states in.
        compute_forces, compute_stress: What is computed beside energies.
        skin: Å, margin of the neighbour lists.

    Raises:
        ConfigError: The device or the precision cannot be used.

    Example:
        >>> import torch_sim
        >>> from ase.build import molecule
        >>> model = TorchSimModel("ethanol-gfn2")
        >>> systems = [molecule("CH3CH2OH"), molecule("CH3OH")]
        >>> model(torch_sim.initialize_state(systems, model.device, model.dtype))["forces"].shape
        torch.Size([15, 3])
    """

    def __init__(
        self,
        model: Model,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float64,
        compute_forces: bool = True,
        compute_stress: bool = True,
        skin: float = 0.5,
    ) -> None:
        super().__init__()
        if dtype not in (torch.float64, torch.float32):
            raise ConfigError(f"dtype={dtype} is not supported; choose torch.float64 or torch.float32.")
        self._device = inference_device(device)
        self._dtype = dtype
        self._compute_forces = compute_forces
        self._compute_stress = compute_stress
        self._memory_scales_with = "n_atoms_x_density"
        self.potential = inference_potential(model, dtype, self._device)
        self._skin = skin
        self._neighbours: list[SkinList] = []
        self._known: tuple[list[NeighbourList], Batch] | None = None

    def forward(self, state: "SimState | dict[str, Any]", **_: Any) -> dict[str, Tensor]:
        """Evaluate all systems of a state.

        Returns:
            `energy` (systems,), `forces` (atoms, 3) and `stress` (systems, 3, 3), positive under tension; the stress is
            NaN for systems without a cell.
        """
        state = SimState(**state, masses=torch.ones_like(state["positions"])) if isinstance(state, dict) else state
        batch = self._batch(_structures(state))
        prediction = self.potential(batch, forces=self._compute_forces, stress=self._compute_stress)
        found = {"energy": prediction.energy, "forces": prediction.forces, "stress": prediction.stress}
        return {name: value.detach().to(self._dtype) for name, value in found.items() if value is not None}

    def _batch(self, structures: list[Structure]) -> Batch:
        """The structures with their edges; the batch of the last call, moved, while the edges are the same."""
        cutoff = self.potential.cutoff
        self._neighbours = self._neighbours[: len(structures)]
        while len(self._neighbours) < len(structures):
            self._neighbours.append(SkinList(cutoff, self._skin))
        for neighbours, structure in zip(self._neighbours, structures, strict=True):
            neighbours.update(structure)
        lists = [neighbours.within(cutoff) for neighbours in self._neighbours]
        if self._known is not None:
            known, batch = self._known
            if len(known) == len(lists) and all(one is other for one, other in zip(known, lists, strict=True)):
                positions = np.concatenate([structure.positions for structure in structures])
                return batch.with_geometry(torch.from_numpy(positions).to(self._device), batch.cell)
        batch = make_batch(structures, cutoff, lists).to(self._device)
        self._known = (lists, batch)
        return batch


def _structures(state: Any) -> list[Structure]:
    """The systems of a state, checked."""
    numbers = state.atomic_numbers.detach().cpu().numpy()
    positions = state.positions.detach().cpu().double().numpy()
    cells = state.row_vector_cell.detach().cpu().double().numpy()
    counts = torch.bincount(state.system_idx, minlength=len(cells)).cpu().numpy()
    ends = np.cumsum(counts)
    return [
        Structure(numbers[end - count : end], positions[end - count : end], cell, state.pbc, f"system {index}")
        for index, (count, end, cell) in enumerate(zip(counts, ends, cells, strict=True))
    ]
