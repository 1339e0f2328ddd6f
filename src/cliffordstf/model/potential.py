"""A potential: energy, forces and stress from any energy model."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.structure import FloatArray, Structure, symbol
from cliffordstf.engine.autograd import AutogradEngine, limits, shown
from cliffordstf.engine.choose import Chosen, EngineName, choose, requested_engine
from cliffordstf.engine.prediction import Prediction, Wanted
from cliffordstf.errors import ConfigError, UnknownElementError
from cliffordstf.kernels import ScheduleError
from cliffordstf.kernels.operator import is_traced
from cliffordstf.model.domain import Domain, fit_domain, scalar_features
from cliffordstf.model.hessian import MEMORY, hessian
from cliffordstf.model.reference import AtomicReference
from cliffordstf.model.short_range import ShortRange

if TYPE_CHECKING:
    from ase import Atoms


class Potential(nn.Module):
    """Wraps an energy model: reference energies, scale, forces and stress.

    Forces are -dE/dr by automatic differentiation, or those of the model's force head. Stress is always the
    derivative of
    the energy with respect to a symmetric strain, per volume. Positions go in and results come out in float64; the
    model computes in the precision of its weights.

    Args:
        model: See `cliffordstf.model.output.EnergyModel`.
        elements: Atomic numbers the model knows, in the order of its species index.
        cutoff: Å.
        forces: `conservative` or `direct`.
        reference: Isolated-atom energies and energy scale; zeros and 1 eV by default.
        pooling: Whether a structure's value is the sum over its atoms or their mean.
        short_range: Repulsion at distances that the training data do not reach.
        engine: What runs it, see `engine`: `auto`, `native`, `autograd`, `reference` (plain PyTorch) or `traced`
            (torch.compile). The environment variable CLIFFORDSTF_ENGINE overrides it.

    Raises:
        ConfigError: There is no such engine.
    """

    species_of_number: Tensor

    def __init__(
        self,
        model: nn.Module,
        elements: tuple[int, ...],
        cutoff: float,
        forces: Literal["conservative", "direct"] = "conservative",
        reference: AtomicReference | None = None,
        pooling: Literal["sum", "mean"] = "sum",
        short_range: ShortRange | None = None,
        engine: EngineName = "auto",
    ) -> None:
        super().__init__()
        self._requested: EngineName = requested_engine(engine)
        self._chosen: Chosen | None = None
        self.short_range = short_range
        self.model = model
        self.pooling = pooling
        self.elements = elements
        self.cutoff = cutoff
        self.force_mode = forces
        self.reference = reference or AtomicReference(elements)
        self.domain: Domain | None = None
        lookup = torch.full((max(elements) + 1,), -1, dtype=torch.int64)
        lookup[list(elements)] = torch.arange(len(elements))
        self.register_buffer("species_of_number", lookup, persistent=False)

    def batch(self, structures: "Sequence[Structure | Atoms] | Structure | Atoms") -> Batch:
        """Make a batch with this potential's cutoff, on its device."""
        return make_batch(structures, self.cutoff).to(self.species_of_number.device)

    def predict(self, structures: "Sequence[Structure | Atoms] | Structure | Atoms", stress: bool = True) -> Prediction:
        """Energy, forces and stress of one or several structures."""
        batch = self.batch(structures)
        prediction = self(batch, stress=stress and bool((batch.volumes() > 0).any()))
        assert isinstance(prediction, Prediction)
        return prediction

    def extrapolation(self, batch: Batch) -> Tensor | None:
        """Distance of every atom from the training set, (atoms,), float64; above 1 it is like none of its atoms.

        None for models without statistics of their training set: files of older versions, and models whose last
        scalar features are not known.
        """
        if self.domain is None:
            return None
        self.check(batch)
        species = self.species_of_number[batch.numbers]
        features = scalar_features(self.model, batch, species)
        return None if features is None else self.domain.measure(features, species)

    def learn_domain(self, batches: Iterable[Batch]) -> None:
        """Keep statistics of a training set, for `extrapolation`."""
        samples = ((batch, self.species_of_number[batch.numbers]) for batch in batches)
        features = ((scalar_features(self.model, batch, species), species) for batch, species in samples)
        self.domain = fit_domain(((f, species) for f, species in features if f is not None), len(self.elements))

    def hessian(self, structure: "Structure | Atoms", memory: float = MEMORY) -> FloatArray:
        """Hessian of the energy in float64, by analytic second derivatives; conservative forces only.

        Args:
            structure: Atoms; for periodic ones it is the Hessian of the Γ point of the given cell.
            memory: Bytes that the graph of the gradient may keep; more rows are then computed at a time.

        Returns:
            eV/Å², (atoms, 3, atoms, 3): element `[i, a, j, b]` is d²E/dr_ia dr_jb.

        Example:
            >>> import cliffordstf
            >>> from ase.build import molecule
            >>> cliffordstf.load("ethanol-gfn2").hessian(molecule("CH3CH2OH")).shape
            (9, 3, 9, 3)
        """
        return hessian(self, structure, memory)

    def forward(self, batch: Batch, forces: bool = True, stress: bool = False, train: bool = False) -> Prediction:
        """Evaluate a batch.

        Args:
            batch: Structures with edges; its neighbour lists must reach at least this potential's cutoff.
            forces, stress: What to compute beside the energy.
            train: Keep the graph so that a loss on forces and stress can be differentiated.
        """
        self.check(batch)
        wanted = Wanted(forces, stress, train)
        # A tracer, or a graph that leads to the positions of the caller, needs autograd.
        is_leaf = train and (batch.positions.requires_grad or batch.cell.requires_grad)
        if is_leaf or is_traced([batch.positions]):
            return AutogradEngine().run(self, batch, wanted)
        try:
            return self.engine.engine.run(self, batch, wanted)
        except ScheduleError:
            # A part of the model was replaced by something else than operators after the engine was chosen.
            if self._requested != "auto":
                raise
            self._chosen = None
            return self.engine.engine.run(self, batch, wanted)

    @property
    def engine(self) -> Chosen:
        """What runs this potential and why; chosen once, and again where it is moved or cast.

        Example:
            >>> import cliffordstf
            >>> cliffordstf.load("ethanol-gfn2").engine
            native (schedule in C++, float32)
        """
        if self._chosen is None:
            self._chosen = choose(self, requested_engine(self._requested))
        return self._chosen

    def use(self, engine: EngineName) -> "Potential":
        """Let another engine run it, and return it; `reference` is for good, as it changes the layers."""
        self._requested, self._chosen = requested_engine(engine), None
        return self

    def release(self) -> None:
        """Give back the memory that evaluation and training have used."""
        self._chosen = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Potential":
        self._chosen = None
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def bonding_energies(self, batch: Batch) -> Tensor:
        """Atomic energies beyond isolated atoms, eV, (atoms,), as a graph that leads to the positions of the batch."""
        species = self.species_of_number[batch.numbers]
        near = limits(self, batch, species)
        energies: Tensor = self.model(shown(self, batch, near), species).atom_energies.double() * self.reference.scale
        if near is not None and self.short_range is not None:
            energies = energies + self.short_range.energies(batch, species, near)
        return energies

    def check(self, batch: Batch) -> None:
        """Refuse a batch with unknown elements or too short neighbour lists."""
        unknown = [number for number in batch.elements if number not in self.elements]
        if unknown:
            known = ", ".join(symbol(number) for number in self.elements[:20])
            known += ", …" if len(self.elements) > 20 else ""
            raise UnknownElementError(
                f"{batch.names[0] if batch.size == 1 else 'the batch'} holds "
                f"{', '.join(symbol(number) for number in unknown)}, which this potential was not built for (it knows "
                f"{known}); use or train a potential with these elements."
            )
        if batch.cutoff < self.cutoff:
            raise ConfigError(
                f"the batch has neighbours up to {batch.cutoff} Å but the potential needs {self.cutoff} Å; make the "
                "batch with potential.batch(...)."
            )
