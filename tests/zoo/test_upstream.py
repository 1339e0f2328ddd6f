"""An adapter says what its package says by the package's own route from positions to energies, forces and stress."""

import importlib
from types import SimpleNamespace

import pytest
import torch

from cliffordstf import Potential, zoo
from cliffordstf.algebra.actions import random_rotation
from cliffordstf.verify import symmetries
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from cliffordstf.zoo import dimenet, schnetpack
from cliffordstf.zoo.edge_frames import EdgeFrames
from cliffordstf.zoo.upstream import contained, lent_scatter, upstream
from tests.zoo.expected import NARROW

ELEMENTS = (1, 6, 8)


def build(name: str, **options) -> Potential:
    if zoo.available(name):
        pytest.skip(zoo.available(name))
    narrow = {**NARROW[name.split("-", maxsplit=1)[0]], **options}
    return zoo.build(name, ELEMENTS, seed=0, dtype=torch.float64, **narrow).eval()


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


@pytest.mark.parametrize("name", ["equiformer-l2", "equiformer-l4"])
def test_equiformer(name, structures, monkeypatch):
    """Upstream's forward pass with its frames rolled as ours; its Wigner matrices come from Euler angles."""
    potential = build(name)
    batch = potential.batch(structures)
    expected = potential(batch)
    model, vectors = potential.model, batch.vectors()
    graph = SimpleNamespace(
        edge_index=torch.stack([batch.senders, batch.receivers]),
        edge_distance=torch.linalg.vector_norm(vectors, dim=1),
        edge_distance_vec=vectors,
        atomic_numbers_full=potential.species_of_number[batch.numbers],
        node_offset=0,
    )
    monkeypatch.setattr(model.network, "generate_graph", lambda *_, **__: graph, raising=False)
    monkeypatch.setattr(model.network, "_init_edge_rot_mat", lambda *_: model.frames.rotations(vectors), raising=False)
    data = SimpleNamespace(
        natoms=batch.atoms_per_structure(),
        pos=batch.positions,
        atomic_numbers=graph.atomic_numbers_full,
        batch=batch.structure_of_atom,
    )
    with contained(torch.float64):
        found = model.network(data)["node_embedding"]
        forces = model.force_block(found, graph.atomic_numbers_full, graph.edge_distance, graph.edge_index)
    # Upstream's table of Wigner matrices is in single precision.
    torch.testing.assert_close(model.energy_block(found).embedding[:, 0, 0], expected.atom_energies, rtol=0, atol=1e-5)
    torch.testing.assert_close(forces.embedding[:, 1:4, 0], expected.forces, rtol=0, atol=1e-5)


def test_edge_frames_bring_edges_to_the_second_axis():
    o3 = pytest.importorskip("e3nn.o3")
    frames = EdgeFrames(3, o3.wigner_3j).train()
    vectors = torch.randn(20, 3, dtype=torch.float64)
    second_axis = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64).expand(20, 3)
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    torch.testing.assert_close((frames.rotations(vectors) @ vectors[:, :, None])[:, :, 0], lengths * second_axis)
    matrices = frames.eval()(vectors, torch.float64)
    harmonics, aligned = (
        torch.cat([o3.spherical_harmonics(degree, each, normalize=True) for degree in range(4)], dim=1)
        for each in (vectors, second_axis)
    )
    torch.testing.assert_close((matrices @ harmonics[:, :, None])[:, :, 0], aligned, rtol=0, atol=1e-5)


def test_faenet():
    """Upstream's forward pass from the positions in the frame that it chooses itself."""
    potential = build("faenet")
    batch = potential.batch(random_cluster(ELEMENTS, 6))
    expected = potential(batch)
    network = potential.model.network
    (positions,), _, (frame,) = upstream("faenet.frame_averaging").frame_averaging_3D(batch.positions, fa_method="det")
    data = SimpleNamespace(
        pos=positions,
        atomic_numbers=potential.species_of_number[batch.numbers],
        batch=batch.structure_of_atom,
        edge_index=torch.stack([batch.senders, batch.receivers]),
    )
    found = network.energy_forward(data, preproc=False)
    # Upstream adds the last bias once per structure, the adapter once per atom.
    torch.testing.assert_close(found["energy"][:, 0] + 5 * network.mlp_skip_co.bias, expected.energy)
    torch.testing.assert_close(network.forces_forward(found) @ frame[0].T, expected.forces)


def test_faenet_in_all_frames_is_equivariant():
    potential = build("faenet", frames="all", graph_norm=False)
    cluster = random_cluster(ELEMENTS, 6)
    before = potential.predict(cluster)
    for matrix in (random_rotation(torch.Generator().manual_seed(0)), -torch.eye(3, dtype=torch.float64)):
        assert symmetries.orthogonal_error(potential, cluster, before, matrix) < 1e-9


def test_the_stand_in_for_torch_scatter_adds_up():
    pytest.importorskip("torch_geometric")
    values, index = torch.randn(7, 3), torch.tensor([0, 2, 2, 0, 1, 4, 4])
    with lent_scatter():
        found = importlib.import_module("torch_scatter").scatter(values, index, dim=0, reduce="add")
    torch.testing.assert_close(found, torch.zeros(5, 3).index_add(0, index, values))


def test_equiformer_turns_with_its_structure_when_its_grid_is_fine():
    potential = build("equiformer-l4", grid_resolution=40)
    assert symmetries.check_symmetries(potential, claims_o3=True).errors()["rotation"] < 1e-9
