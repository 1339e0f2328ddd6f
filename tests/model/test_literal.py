"""The node-level rewriting equals the paper's per-edge formulas: outputs, gradients of every weight and position."""

import pytest
import torch

import cliffordstf
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from tests.literal import literal_forward

CASES = [
    ("paper/full", {}),
    ("paper/full", {"body_order": 4}),
    ("paper/full", {"body_order": 2}),
    ("paper/full", {"gp_readout": True}),
    ("paper/full", {"forces": "conservative"}),
    ("paper/full-no-cross", {}),
    ("paper/stf2-static", {}),
    ("paper/stf2-learned", {}),
    ("paper/stf2-no-hodge", {}),
    ("paper/scaffold", {}),
    ("paper/hodge-only", {}),
    ("paper/output-only", {}),
    ("paper/clifford", {}),
]


@pytest.mark.parametrize(("name", "overrides"), CASES, ids=str)
def test_rewriting_equals_the_literal_formulas(name, overrides):
    potential = cliffordstf.build(name, elements=[1, 6, 8], seed=1, channels=16, hidden=16, **overrides).double()
    batch = potential.batch([random_cluster((1, 6, 8)), triclinic_crystal((1, 6, 8))])
    positions = batch.positions.clone().requires_grad_()
    batch = batch.with_geometry(positions, batch.cell)
    species = potential.species_of_number[batch.numbers]
    inputs = [positions, *potential.parameters()]

    def loss_and_gradients(energies, forces):
        generator = torch.Generator().manual_seed(0)
        total = (energies * torch.randn(energies.shape, generator=generator)).sum()
        if forces is not None:
            total = total + (forces * torch.randn(forces.shape, generator=generator)).sum()
        return torch.autograd.grad(total, inputs)

    output = potential.model(batch, species)
    literal_energies, literal_forces = literal_forward(potential.model, batch, species)
    torch.testing.assert_close(output.atom_energies, literal_energies, rtol=1e-12, atol=1e-12)
    if literal_forces is not None:
        torch.testing.assert_close(output.forces, literal_forces, rtol=1e-12, atol=1e-12)
    ours = loss_and_gradients(output.atom_energies, output.forces)
    expected = loss_and_gradients(literal_energies, literal_forces)
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)
