"""Energies of free atoms and the energy scale, kept in float64 whatever the model's precision."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class AtomicReference(nn.Module):
    """E = scale · Σ_i e_i + Σ_i E0(Z_i) + constant, in eV.

    Casting the module (`.float()`, `.half()`) leaves these numbers in float64: total energies are 10^4 to 10^6 times
    larger than the differences that matter.

    Attributes:
        energies: E0 per element, eV, float64 (elements,).
        scale: eV, float64 ().
        constant: Of a structure, whatever its size, eV, float64 (); for labels that are learned as they are spread
            around their mean, and 0 for energies.
    """

    energies: Tensor
    scale: Tensor
    constant: Tensor

    def __init__(
        self,
        elements: tuple[int, ...],
        energies: Mapping[int, float] | None = None,
        scale: float = 1.0,
        constant: float = 0.0,
    ) -> None:
        super().__init__()
        values = [float((energies or {}).get(number, 0.0)) for number in elements]
        self.register_buffer("energies", torch.tensor(values, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(float(scale), dtype=torch.float64))
        self.register_buffer("constant", torch.tensor(float(constant), dtype=torch.float64))
        self.register_load_state_dict_pre_hook(_without_constant)  # type: ignore[no-untyped-call]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "AtomicReference":
        exact = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in exact.items():
            moved = self._buffers[name]
            if moved is not None:
                self._buffers[name] = buffer.to(moved.device)
        return self

    def forward(self, atom_energies: Tensor, species: Tensor) -> Tensor:
        """Model output (atoms,) -> atomic energies in eV, float64 (atoms,)."""
        return atom_energies.double() * self.scale + self.energies[species]

    def of_structures(self, atom_energies: Tensor, structure_of_atom: Tensor, structures: int) -> Tensor:
        """Atomic energies (atoms,) -> energies of structures, eV, (structures,)."""
        sums = atom_energies.new_zeros(structures).index_add(0, structure_of_atom, atom_energies)
        return sums + self.constant


def _without_constant(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Weights that were saved before there was a constant."""
    assert isinstance(module, AtomicReference)
    state.setdefault(f"{prefix}constant", torch.zeros_like(module.constant))
