"""Losses on energies, forces and stress; labels that are missing or NaN do not count."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor

from cliffordstf.data.dataset import LabelledBatch
from cliffordstf.engine.prediction import Prediction
from cliffordstf.options import Options

Kind = Literal["mse", "l1", "huber", "l2"]


class TermConfig(Options):
    """One term of the loss."""

    kind: Kind = Field("mse", description="mse, l1, huber, or l2: the norm of a vector's error, not squared.")
    weight: float = Field(1.0, ge=0, description="Weight at the start of training.")
    final_weight: float | None = Field(None, ge=0, description="Weight at the end; by default the same.")
    huber_delta: float = Field(0.1, gt=0, description="Where huber turns from square to linear, in scaled units.")

    @property
    def is_used(self) -> bool:
        """Whether the term counts at any time."""
        return max(self.weight, self.final_weight or 0.0) > 0

    def weight_at(self, progress: float) -> float:
        """Weight at a share of training done, moving geometrically from the first to the last value."""
        if self.final_weight is None or self.final_weight == self.weight:
            return self.weight
        if min(self.weight, self.final_weight) == 0:
            return self.weight + (self.final_weight - self.weight) * progress
        return float(self.weight * (self.final_weight / self.weight) ** progress)


class LossConfig(Options):
    """Terms of the loss, in units of the energy scale (the root mean square of the training forces)."""

    energy: TermConfig = Field(TermConfig(kind="l1", weight=0.1), description="On the energy error, see energy_per.")
    forces: TermConfig = Field(TermConfig(kind="l2", weight=1.0), description="On the forces on atoms.")
    stress: TermConfig = Field(TermConfig(kind="l1", weight=0.1), description="On stress times volume per atom.")
    energy_per: Literal["structure", "root-atom", "atom"] = Field(
        "root-atom", description="Divide the energy error by 1, by the root of the number of atoms, or by that number."
    )

    @field_validator("energy", "forces", "stress", mode="before")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """What is not said of a term stays as its own default has it: a weight alone must not square the errors."""
        if not isinstance(value, dict):
            return value
        default: TermConfig = cls.model_fields[str(info.field_name)].default
        return {**default.model_dump(), **value}


@dataclass(frozen=True)
class LossSums:
    """Sums of each term over a batch and how many entries they are over; sums of several processes add up.

    Attributes:
        sums: (3,): energy, forces, stress.
        counts: (3,).
    """

    sums: Tensor
    counts: Tensor


def loss_sums(config: LossConfig, prediction: Prediction, labels: LabelledBatch, scale: Tensor) -> LossSums:
    """Sum each term over the labels that a batch has."""
    atoms = labels.batch.atoms_per_structure().double()
    divisor = {"structure": torch.ones_like(atoms), "root-atom": atoms.sqrt(), "atom": atoms}[config.energy_per]
    per_divisor = (1 / (divisor * scale))[:, None]
    weights: tuple[Tensor | None, ...] = (None, None, None)
    if labels.weights is not None:
        energy, forces, stress = labels.weights.unbind(1)
        weights = (energy, forces.index_select(0, labels.batch.structure_of_atom), stress)
    terms = [_term(config.energy, prediction.energy[:, None], labels.energy[:, None], per_divisor, weights[0])]
    if prediction.forces is None:
        terms.append(_nothing(prediction.energy))
    else:
        terms.append(_term(config.forces, prediction.forces, labels.forces, 1 / scale, weights[1]))
    if prediction.stress is None:
        terms.append(_nothing(prediction.energy))
    else:
        per_atom = (labels.batch.volumes() / (atoms * scale))[:, None]
        predicted, stress = prediction.stress.reshape(-1, 1), labels.stress.reshape(-1, 1)
        if config.stress.kind == "l2":  # the norm of all nine components, which must all be there
            predicted, stress = predicted.reshape(-1, 9), stress.reshape(-1, 9)
        else:
            per_atom = per_atom.repeat_interleave(9, dim=0)
        of_stress = weights[2] if weights[2] is None else weights[2].repeat_interleave(len(stress) // len(atoms))
        terms.append(_term(config.stress, predicted, stress, per_atom, of_stress))
    sums, counts = zip(*terms, strict=True)
    return LossSums(torch.stack(sums), torch.stack(counts))


def _nothing(like: Tensor) -> tuple[Tensor, Tensor]:
    return like.new_zeros(()), like.new_zeros(())


def _term(
    config: TermConfig, predicted: Tensor, label: Tensor, factor: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weighted sum, and count, over rows (entries, components) whose label is known.

    Only labels decide what is left out: a prediction that is not a number must show in the loss. Weights, (entries,),
    do not change the count: in a batch of one structure its weight would vanish.
    """
    known = torch.isfinite(label).all(dim=1, keepdim=True)
    # Masked before any function of it: a NaN times zero would still be NaN in the gradient.
    clean = torch.where(known, predicted - torch.where(known, label, 0.0), 0.0) * factor
    if config.kind == "l2":
        # The gradient of a norm at zero is not a number; rows without an error contribute nothing.
        size = clean.square().sum(dim=1)
        values = torch.where(size > 0, size, 1.0).sqrt() * (size > 0)
        return _sum(values[:, None], weights), known.sum().double()
    if config.kind == "mse":
        values = clean.square()
    elif config.kind == "l1":
        values = clean.abs()
    else:
        values = torch.nn.functional.huber_loss(
            clean, torch.zeros_like(clean), reduction="none", delta=config.huber_delta
        )
    return _sum(values, weights), known.sum().double() * label.shape[1]


def _sum(values: Tensor, weights: Tensor | None) -> Tensor:
    return values.sum() if weights is None else (values * weights[:, None]).sum()


def combine(config: LossConfig, sums: LossSums, counts: Tensor, progress: float) -> Tensor:
    """Weighted mean loss; `counts` are those of the whole batch, of all processes together."""
    weights = sums.sums.new_tensor([t.weight_at(progress) for t in (config.energy, config.forces, config.stress)])
    return (weights * sums.sums / counts.clamp(min=1)).sum()
