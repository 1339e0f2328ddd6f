"""The checks of `verify` find what they are meant to find."""

import pytest
import torch
from torch import nn

import cliffordstf
from cliffordstf.data.batch import Batch
from cliffordstf.model.output import ModelOutput
from cliffordstf.model.potential import Potential
from cliffordstf.verify import physics
from cliffordstf.verify.symmetries import check_symmetries, check_variant, variants


class Pair(nn.Module):
    """A pair potential with faults to order."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, batch: Batch, species: torch.Tensor) -> ModelOutput:
        vectors = batch.vectors()
        r = vectors.norm(dim=1)
        energy = torch.exp(-r)
        if self.fault == "rotation":
            energy = energy * (1 + 0.01 * vectors[:, 0])
        if self.fault == "kink":  # value and slope vanish at the cutoff, the curvature does not
            energy = energy * (1 - r / 5.0) ** 2
        if self.fault == "smooth":
            energy = energy * (1 - r / 5.0) ** 3
        atoms = torch.zeros(len(species), dtype=r.dtype).index_add(0, batch.receivers, energy)
        if self.fault == "permutation":
            atoms = atoms * torch.arange(1, len(atoms) + 1)
        if self.fault == "translation":
            atoms = atoms + 0.01 * batch.positions[:, 2]
        return ModelOutput(atoms)


def pair(fault: str) -> Potential:
    return Potential(Pair(fault), elements=(1, 6, 8), cutoff=5.0)


@pytest.mark.parametrize("fault", ["rotation", "permutation", "translation"])
def test_broken_symmetries_are_found(fault):
    assert check_symmetries(pair("none"), claims_o3=True).passed(1e-9)
    assert check_symmetries(pair(fault), claims_o3=True).errors()[fault] > 1e-4


def test_cutoff_check_tells_a_jump_a_kink_and_a_smooth_end_apart():
    steps = (1e-2, 1e-3)
    jump, kink, smooth = (
        [physics.cutoff_jump(pair(fault), step) for step in steps] for fault in ("none", "kink", "smooth")
    )
    assert jump[1].energy > 0.5 * jump[0].energy
    assert kink[1].energy < 0.02 * kink[0].energy
    assert kink[1].curvature > 0.5 * kink[0].curvature
    assert smooth[1].curvature < 0.2 * smooth[0].curvature


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_default_in_both_precisions(dtype):
    assert check_variant("default/small", dtype).passed(1e-9 if dtype == torch.float64 else 1e-4)


def test_every_preset_is_verified():
    assert set(cliffordstf.PRESETS) < set(variants())
