"""The one equivariance checker: does a function commute with rotation, reflection, translation and permutation?

A function takes tensors and returns one or several. Each of them is declared by a `Quantity`, which holds how the
tensor changes with its structure:

    check_equivariance(layer, [(features, tracks(layout))], tracks(layer.layout))
    check_equivariance(*of_potential(potential, structure))
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cliffordstf.algebra.actions import act, random_rotation, track_action
from cliffordstf.algebra.tracks import Layout, Track
from cliffordstf.data.structure import Structure
from cliffordstf.model.potential import Potential

SYMMETRIES = ("rotation", "reflection", "translation", "permutation")
WITHOUT_REFLECTION = ("rotation", "translation", "permutation")


def _unturned(value: Tensor, _matrix: Tensor) -> Tensor:
    return value


@dataclass(frozen=True)
class Quantity:
    """How a tensor changes with its structure.

    Attributes:
        turn: What an orthogonal matrix (3, 3) makes of it.
        atom_axes: Axes that count atoms.
        is_place: Whether it moves along with the structure.
        holds_atoms: Whether its values are indices of atoms.
    """

    turn: Callable[[Tensor, Tensor], Tensor] = _unturned
    atom_axes: tuple[int, ...] = ()
    is_place: bool = False
    holds_atoms: bool = False

    def permute(self, value: Tensor, order: Tensor) -> Tensor:
        """The value for atoms in another order: atom `order[n]` becomes atom n."""
        for axis in self.atom_axes:
            value = value.index_select(axis, order)
        return order.argsort()[value] if self.holds_atoms else value


def _rows(value: Tensor, matrix: Tensor) -> Tensor:
    return value @ matrix.T


def _tensor(value: Tensor, matrix: Tensor) -> Tensor:
    return matrix @ value @ matrix.T


def _hessian(value: Tensor, matrix: Tensor) -> Tensor:
    return torch.einsum("xa,iajb,yb->ixjy", matrix, value, matrix)


INVARIANT = Quantity()
ATOM_INVARIANTS = Quantity(atom_axes=(0,))
POSITIONS = Quantity(_rows, (0,), is_place=True)
ATOM_VECTORS = Quantity(_rows, (0,))
VECTORS = Quantity(_rows)
TENSOR = Quantity(_tensor)
HESSIAN = Quantity(_hessian, (0, 2))
PAIRS = Quantity(holds_atoms=True)
"""Indices of the atoms of each pair, (pairs, 2)."""


def tracks(layout: Layout) -> Quantity:
    """Features (atoms, components, channels)."""
    return Quantity(lambda value, matrix: act(value, layout, matrix), (0,))


def one_track(track: Track, sign: int = 1) -> Quantity:
    """Components of one track, (…, 2l+1, channels); with sign -1 of the opposite parity."""

    def turn(value: Tensor, matrix: Tensor) -> Tensor:
        improper = bool(torch.linalg.det(matrix) < 0)
        return track_action(track, matrix) @ value * (sign if improper else 1)

    return Quantity(turn)


Inputs = Sequence[tuple[Tensor, Quantity]]
Outputs = Quantity | Sequence[Quantity]
Function = Callable[..., Tensor | Sequence[Tensor]]


def check_equivariance(
    function: Function,
    inputs: Inputs,
    outputs: Outputs,
    symmetries: Iterable[str] = SYMMETRIES,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> None:
    """Fail where a symmetry is broken.

    Args:
        function: Takes the tensors of the inputs in their order.
        inputs: Tensors in float64, or integers, and what they are.
        outputs: What the function returns, one or several.
        symmetries: Some of `SYMMETRIES`.
        tolerance: Largest deviation of an output, relative to its largest value.
        seed: Of the random rotation, reflection, translation and permutation.
    """
    found = equivariance_errors(function, inputs, outputs, symmetries, seed)
    broken = {name: error for name, error in found.items() if not error <= tolerance}
    assert not broken, f"not equivariant: {broken}"


def equivariance_errors(
    function: Function,
    inputs: Inputs,
    outputs: Outputs,
    symmetries: Iterable[str] = SYMMETRIES,
    seed: int = 0,
) -> dict[str, float]:
    """Largest relative deviation of any output under each symmetry; arguments as in `check_equivariance`."""
    before = _as_list(function(*(value for value, _ in inputs)))
    kinds = [outputs] if isinstance(outputs, Quantity) else list(outputs)
    errors = {}
    for name in symmetries:
        operation = _operation(name, inputs, torch.Generator().manual_seed(seed))
        after = _as_list(function(*(operation(value, kind) for value, kind in inputs)))
        deviations = [
            _relative_error(operation(value, replace(kind, is_place=False)), found)
            for value, kind, found in zip(before, kinds, after, strict=True)
        ]
        errors[name] = float(np.max(deviations))  # not a number if any of them is not
    return errors


def _as_list(values: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [values.detach()] if isinstance(values, Tensor) else [value.detach() for value in values]


def _operation(name: str, inputs: Inputs, generator: torch.Generator) -> Callable[[Tensor, Quantity], Tensor]:
    """What a symmetry makes of each quantity."""
    if name in ("rotation", "reflection"):
        matrix = random_rotation(generator) * (-1 if name == "reflection" else 1)
        return lambda value, kind: kind.turn(value, matrix)
    if name == "translation":
        shift = 3 * torch.randn(3, generator=generator, dtype=torch.float64)
        return lambda value, kind: value + shift if kind.is_place else value
    if name == "permutation":
        counts = {value.shape[axis] for value, kind in inputs for axis in kind.atom_axes}
        assert len(counts) <= 1, f"inputs of different numbers of atoms: {counts}"
        order = torch.randperm(counts.pop() if counts else 0, generator=generator)
        return lambda value, kind: kind.permute(value, order)
    raise ValueError(f"there is no symmetry '{name}'; choose from {', '.join(SYMMETRIES)}.")


def _relative_error(expected: Tensor, found: Tensor) -> float:
    assert expected.shape == found.shape, f"shapes {tuple(expected.shape)} and {tuple(found.shape)}"
    if expected.numel() == 0:
        return 0.0
    return float((expected - found).abs().max() / expected.abs().max().clamp(min=1e-300))


def of_potential(potential: Potential, structure: Structure) -> tuple[Function, Inputs, Outputs]:
    """Energy, atomic energies, forces and, in a crystal, the stress: the first arguments of `check_equivariance`."""
    is_crystal = bool(structure.pbc.all())

    def predict(numbers: Tensor, positions: Tensor, cell: Tensor) -> list[Tensor]:
        found = potential.predict(
            replace(structure, numbers=numbers.numpy(), positions=positions.numpy(), cell=cell.numpy())
        )
        values = [found.energy, found.atom_energies, found.forces, *([found.stress[0]] if is_crystal else [])]
        return [value.cpu() for value in values]

    inputs = [
        (torch.from_numpy(np.asarray(structure.numbers)), ATOM_INVARIANTS),
        (torch.from_numpy(structure.positions), POSITIONS),
        (torch.from_numpy(structure.cell), VECTORS),
    ]
    return predict, inputs, [INVARIANT, ATOM_INVARIANTS, ATOM_VECTORS, *([TENSOR] if is_crystal else [])]
