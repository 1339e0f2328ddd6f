"""An adapter says what its package says by the package's own route from positions to energies, forces and stress."""

import pytest
import torch

from cliffordstf import Potential, zoo
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from cliffordstf.zoo import dimenet, schnetpack
from cliffordstf.zoo.upstream import upstream
from tests.zoo.expected import NARROW

ELEMENTS = (1, 6, 8)


def build(name: str) -> Potential:
    if zoo.available(name):
        pytest.skip(zoo.available(name))
    return zoo.build(name, ELEMENTS, seed=0, dtype=torch.float64, **NARROW[name.split("-", maxsplit=1)[0]]).eval()


@pytest.fixture
def structures() -> list:
    return [random_cluster(ELEMENTS, 6), triclinic_crystal(ELEMENTS)]


def test_mace(structures):
    potential = build("mace-l2")
    batch = potential.batch(structures)
    expected = potential(batch, stress=True)
    species = potential.species_of_number[batch.numbers]
    cells = batch.cell[batch.structure_of_atom[batch.receivers]]
    cell = batch.cell.clone()
    cell[0] = torch.eye(3, dtype=torch.float64)  # MACE divides by the volume
    found = potential.model.network(
        {
            "positions": batch.positions.clone(),
            "node_attrs": torch.nn.functional.one_hot(species, 3).double(),
            "edge_index": torch.stack([batch.senders, batch.receivers]),
            "shifts": -torch.einsum("ei,eij->ej", batch.shifts, cells),
            "unit_shifts": -batch.shifts,
            "cell": cell.reshape(-1, 3),
            "batch": batch.structure_of_atom,
            "ptr": torch.tensor([0, 6, 10]),
        },
        compute_force=True,
        compute_stress=True,
    )
    torch.testing.assert_close(found["energy"], expected.energy)
    torch.testing.assert_close(found["forces"], expected.forces)
    torch.testing.assert_close(found["stress"][1], expected.stress[1])


def test_nequip(structures):
    potential = build("nequip-l1")
    batch = potential.batch(structures)
    expected = potential(batch, stress=True)
    network = potential.model.network
    network.do_derivatives = True
    cell = batch.cell.clone()
    cell[0] = torch.eye(3, dtype=torch.float64)
    found = network(
        {
            "pos": batch.positions.clone(),
            "edge_index": torch.stack([batch.receivers, batch.senders]),
            "edge_cell_shift": batch.shifts,
            "cell": cell,
            "atom_types": potential.species_of_number[batch.numbers],
            "batch": batch.structure_of_atom,
            "num_atoms": batch.atoms_per_structure(),
        }
    )
    torch.testing.assert_close(found["total_energy"][:, 0], expected.energy)
    torch.testing.assert_close(found["forces"], expected.forces)
    torch.testing.assert_close(found["stress"][1], expected.stress[1])


@pytest.mark.parametrize("name", ["painn", "schnet"])
def test_schnetpack(name, structures):
    potential = build(name)
    batch = potential.batch(structures)
    expected = potential(batch)
    spk = schnetpack.load()
    cells = batch.cell[batch.structure_of_atom[batch.receivers]]
    inputs = {
        "_atomic_numbers": potential.species_of_number[batch.numbers],
        "_positions": batch.positions.clone().requires_grad_(True),
        "_offsets": torch.einsum("ei,eij->ej", batch.shifts, cells),
        "_idx_i": batch.receivers,
        "_idx_j": batch.senders,
        "_idx_m": batch.structure_of_atom,
    }
    outputs = potential.model.representation(spk.atomistic.PairwiseDistances()(inputs))
    energies = potential.model.readout(outputs)["energy"][:, 0]
    (gradient,) = torch.autograd.grad(energies.sum(), inputs["_positions"])
    torch.testing.assert_close(energies, expected.atom_energies)
    torch.testing.assert_close(-gradient, expected.forces)


def test_dimenet(monkeypatch):
    """Upstream's forward pass on a molecule, with its neighbour search and triplets spelt out."""
    potential = build("dimenet++")
    batch = potential.batch(random_cluster(ELEMENTS, 6))
    expected = potential(batch)
    edges = list(zip(batch.senders.tolist(), batch.receivers.tolist(), strict=True))
    found = [
        (i, j, k, kj, ji)
        for ji, (j, i) in enumerate(edges)
        for kj, (k, middle) in enumerate(edges)
        if middle == j and k != i
    ]
    first, second = dimenet.triplets(batch)
    assert {(kj, ji) for *_, kj, ji in found} == set(zip(first.tolist(), second.tolist(), strict=True))
    module = upstream("torch_geometric.nn.models.dimenet")
    monkeypatch.setattr(module, "radius_graph", lambda *_, **__: torch.stack([batch.senders, batch.receivers]))
    columns = [torch.tensor(column) for column in zip(*found, strict=True)]
    monkeypatch.setattr(module, "triplets", lambda *_, **__: (batch.receivers, batch.senders, *columns))
    energy = potential.model.network(potential.species_of_number[batch.numbers], batch.positions)
    torch.testing.assert_close(energy, expected.energy)
