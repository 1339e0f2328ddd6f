"""Energies of free atoms and the energy scale, kept in float64 whatever the model's precision."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


class AtomicReference(nn.Module):
    """E = scale · Σ_i e_i + Σ_i E0(Z_i), in eV.

    Casting the module (`.float()`, `.half()`) leaves these numbers in float64: total energies are 10^4 to 10^6 times
    larger than the differences that matter.

    Attributes:
        energies: E0 per element, eV, float64 (elements,).
        scale: eV, float64 ().
    """

    energies: Tensor
    scale: Tensor

    def __init__(
        self, elements: tuple[int, ...], energies: Mapping[int, float] | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        values = [float((energies or {}).get(number, 0.0)) for number in elements]
        self.register_buffer("energies", torch.tensor(values, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(float(scale), dtype=torch.float64))

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
