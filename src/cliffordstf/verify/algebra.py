"""Compare the coupling table with Wigner 3j symbols, and check the paper's Theorem 1."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cliffordstf.algebra import clifford, stf, wigner
from cliffordstf.algebra.couplings import Coupling, coupling, coupling_table

COUPLING_TOLERANCE = 1e-11
THEOREM_TOLERANCE = 1e-13


@dataclass(frozen=True)
class CouplingCheck:
    """One row of the table.

    Attributes:
        coupling: The entry.
        factor: Ratio of our map to the Clebsch-Gordan one.
        max_error: Largest deviation of any component over all samples, once that factor is taken out.
    """

    coupling: Coupling
    factor: float
    max_error: float

    @property
    def passed(self) -> bool:
        """Whether the error is within tolerance and the map is not zero."""
        return self.max_error < COUPLING_TOLERANCE and abs(self.factor) > 1e-3


def check_coupling(entry: Coupling, samples: int, generator: torch.Generator) -> CouplingCheck:
    """Evaluate one entry and its Wigner reference on random unit-variance tensors, float64.

    The one free number, the factor between the two conventions, is read off an extra sample that is not compared.
    """
    a, b = (_random_components(l, samples + 1, generator) for l in (entry.l1, entry.l2))
    ours = stf.to_cartesian(torch.einsum("nac,nbc,abk->nkc", a, b, entry.tensor()), entry.l3)[..., 0]
    full_a, full_b = (stf.to_cartesian(x, l)[..., 0] for x, l in ((a, entry.l1), (b, entry.l2)))
    reference = wigner.couple(full_a, full_b, entry.l1, entry.l2, entry.l3)
    factor = float((ours[0] * reference[0]).sum() / (reference[0] ** 2).sum())
    error = (ours[1:] - factor * reference[1:]).abs().max()
    return CouplingCheck(entry, factor, float(error))


def _random_components(degree: int, samples: int, generator: torch.Generator) -> Tensor:
    return torch.randn(samples, 2 * degree + 1, 1, generator=generator, dtype=torch.float64)


def check_couplings(lmax: int = 3, samples: int = 1000, seed: int = 0) -> list[CouplingCheck]:
    """Check every entry with degrees up to `lmax`."""
    generator = torch.Generator().manual_seed(seed)
    return [check_coupling(entry, samples, generator) for entry in coupling_table(lmax)]


def check_theorem(samples: int = 1000, seed: int = 0) -> float:
    """Largest error of u_i v_j = δ_ij <uv>_0 / 3 + ε_ijk (★<uv>_2)_k / 2 + STF2(u, v)_ij, float64."""
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(samples, 3, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    product = clifford.geometric_product(_embed(u), _embed(v), (1,), (1,))
    dot = clifford.grade(product, 0)
    axial = clifford.bivector_to_axial(clifford.grade(product, 2))
    symmetric = stf.to_cartesian(torch.einsum("nac,nbc,abk->nkc", u, v, coupling(1, 1, 2).tensor()), 2)
    identity = torch.eye(3, dtype=torch.float64)[:, :, None]
    rebuilt = identity * dot[:, None] / 3 + _levi_civita(axial) / 2 + symmetric
    return float((rebuilt - u[:, :, None] * v[:, None]).abs().max())


def _embed(vector: Tensor) -> Tensor:
    """Vectors (..., 3, channels) as multivectors (..., 8, channels)."""
    multivector = vector.new_zeros(*vector.shape[:-2], 8, vector.shape[-1])
    multivector[..., 1:4, :] = vector
    return multivector


def _levi_civita(axial: Tensor) -> Tensor:
    """ε_ijk a_k as an antisymmetric matrix, (..., 3, 3, channels)."""
    x, y, z = axial.unbind(dim=-2)
    zero = torch.zeros_like(x)
    rows = [torch.stack(row, dim=-2) for row in ([zero, z, -y], [-z, zero, x], [y, -x, zero])]
    return torch.stack(rows, dim=-3)
