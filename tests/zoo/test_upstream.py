"""An adapter says what its package says by the package's own route from positions to energies, forces and stress."""

import importlib
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ase.build import molecule
from torch import Tensor

from cliffordstf import Potential, zoo
from cliffordstf.data.batch import Batch
from cliffordstf.data.structure import Structure
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from cliffordstf.zoo import dimenet, equiformer, faenet, gotennet, schnetpack, torchmd, visnet
from cliffordstf.zoo.edge_frames import EdgeFrames
from cliffordstf.zoo.upstream import contained, lent_scatter, upstream
from tests.equivariance import check_equivariance, of_potential
from tests.zoo import by_definition
from tests.zoo.expected import NARROW
from tests.zoo.weights import give_weights, move_weights, renamed

ELEMENTS = (1, 6, 8)

Route = Callable[[Batch], tuple[Tensor, Tensor]]
"""Upstream's way from a batch to energies (structures,) and forces (atoms, 3)."""


def build(name: str, **options) -> Potential:
    if zoo.available(name):
        pytest.skip(zoo.available(name))
    narrow = {**NARROW[re.sub("-l[0-9]$", "", name)], **options}
    potential = zoo.build(name, ELEMENTS, seed=0, dtype=torch.float64, **narrow).eval()
    move_weights(potential)
    return potential


@pytest.fixture
def structures() -> list:
    return [random_cluster(ELEMENTS, 6), triclinic_crystal(ELEMENTS)]


@pytest.fixture(params=["one", "two of different sizes"])
def molecules(request) -> list:
    """Within and beyond the cutoff; ethanol is shaken, because its mirror plane would hide errors."""
    ethanol = molecule("CH3CH2OH")
    ethanol.rattle(0.1, seed=0)
    return [random_cluster(ELEMENTS, 6)] if request.param == "one" else [random_cluster(ELEMENTS, 6), ethanol]


def assert_same(potential: Potential, structures: list, route: Route) -> None:
    """An adapter without reference energies and scale agrees with upstream on energies and forces."""
    assert not potential.reference.energies.any()
    assert potential.reference.scale == 1
    batch = potential.batch(structures)
    pairs = sum(count * (count - 1) for count in batch.atoms_per_structure().tolist())
    assert len(batch.senders) < pairs, "nothing is beyond the cutoff"
    expected = potential(batch)
    with contained(torch.float64):  # some networks make tensors of the default dtype on the way
        energy, forces = route(batch)
    assert expected.forces.abs().max() > 0.01, "too weak to tell"
    torch.testing.assert_close(energy, expected.energy, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(forces, expected.forces, rtol=1e-10, atol=1e-10)


def forces_of(energy: Tensor, positions: Tensor) -> Tensor:
    return -torch.autograd.grad(energy.sum(), positions)[0]


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


LOOPS = {
    "representation.": "representation_model.",
    "readout.": "output_model.",
    "neighbor_embedding.embedding.": "neighbor_embedding.",
}
"""How torchmd-net and PyTorch Geometric name what the adapters of `cliffordstf.zoo.loops` hold."""


def torchmd_route(potential: Potential, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> Route:
    """The model that upstream's factory makes for a hundred elements, with its neighbour kernel by definition.

    The kernel is Warp's, which is not installed; without Warp, TensorNet takes upstream's own PyTorch operations.
    """
    config = potential.model.config
    given = {
        "precision": 64,
        "embedding_dimension": config.channels,
        "num_layers": config.layers,
        "num_rbf": config.basis,
        "num_heads": getattr(config, "heads", None),
        "cutoff_lower": 0.0,
        "cutoff_upper": config.cutoff,
        "max_z": 100,
        "max_num_neighbors": 32,
        "rbf_type": "expnorm",
        "trainable_rbf": True,
        "activation": "silu",
        "attn_activation": "silu",
        "distance_influence": "both",
        "neighbor_embedding": True,
        "equivariance_invariance_group": "O(3)",
        "output_model": "Scalar",
        "reduce_op": "sum",
        "prior_model": None,
        "atom_filter": -1,
        "derivative": True,
        **arguments,
    }
    with contained(torch.float64):
        network = torchmd.load("model").create_model(given).eval()
    own = ["mean", "std", "representation_model.distance.box"]  # zero, one, and no box
    give_weights(network, renamed(potential.model.state_dict(), LOOPS), ELEMENTS, own)
    monkeypatch.setattr(torchmd.load("utils"), "get_neighbor_pairs_kernel", by_definition.neighbour_pairs)

    def route(batch: Batch) -> tuple[Tensor, Tensor]:
        box = batch.cell[0] if batch.periodic else None
        energy, forces = network(batch.numbers, batch.positions.clone(), batch.structure_of_atom, box)
        return energy[:, 0].detach(), forces

    return route


TORCHMD = {"torchmd-et": "equivariant-transformer", "tensornet": "tensornet"}
"""What upstream's factory calls them."""


@pytest.mark.parametrize("name", TORCHMD)
def test_torchmd(name, molecules, monkeypatch):
    potential = build(name)
    assert_same(potential, molecules, torchmd_route(potential, monkeypatch, model=TORCHMD[name]))


@pytest.mark.parametrize("name", TORCHMD)
def test_torchmd_in_a_box(name, monkeypatch):
    """The adapters also take an atom's own images for neighbours, for which upstream's boxes have no room.

    That these count as any other neighbour is what `test_zoo.test_supercell_and_cell_choice` finds.
    """
    potential = build(name)
    cluster = random_cluster(ELEMENTS, 16)
    boxed = Structure(cluster.numbers, cluster.positions, np.diag([10.1, 10.2, 10.3]), np.array([True] * 3))
    assert potential.batch(boxed).periodic
    assert_same(potential, [boxed], torchmd_route(potential, monkeypatch, model=TORCHMD[name]))


def test_torchmd_et_with_cutoffs_on_vectors(molecules, monkeypatch):
    potential = build("torchmd-et", vector_cutoff=True)
    route = torchmd_route(potential, monkeypatch, model=TORCHMD["torchmd-et"], vector_cutoff=True)
    assert_same(potential, molecules, route)


def test_tensornet_with_a_fixed_number_of_edges(molecules, monkeypatch):
    """Upstream's `static_shapes`, its constructor's default: edges that are missing belong to a ghost atom."""
    potential = build("tensornet")
    assert_same(potential, molecules, torchmd_route(potential, monkeypatch, model="tensornet", static_shapes=True))


@pytest.mark.parametrize("options", [{}, {"lmax": 2, "vertex": True}])
def test_visnet(options, molecules, monkeypatch):
    """The complete model for a hundred elements, with pyg-lib's radius graph, which is not installed, by definition."""
    potential = build("visnet", **options)
    config = potential.model.config
    module = visnet.FAMILY.load()
    with contained(torch.float64):
        network = module.ViSNet(
            lmax=config.lmax,
            vertex=config.vertex,
            num_heads=config.heads,
            num_layers=config.layers,
            hidden_channels=config.channels,
            num_rbf=config.basis,
            cutoff=config.cutoff,
            derivative=True,
        ).eval()
    own = ["mean", "std", "prior_model.initial_atomref", "prior_model.atomref.weight"]  # zero, one, zeros
    give_weights(network, renamed(potential.model.state_dict(), LOOPS), ELEMENTS, own)
    monkeypatch.setattr(module, "radius_graph", by_definition.radius_graph)

    def route(batch: Batch) -> tuple[Tensor, Tensor]:
        energy, forces = network(batch.numbers, batch.positions.clone(), batch.structure_of_atom)
        return energy[:, 0].detach(), forces.detach()

    assert_same(potential, molecules, route)


@pytest.mark.parametrize("options", [{}, {"lmax": 1}])
def test_gotennet(options, molecules, monkeypatch):
    """Upstream's wrapper, which looks for neighbours itself, and its output module for energies.

    torch-cluster's radius graph, which is not installed, by definition. Upstream's settings for QM9 make the hidden
    layer of the output module wider; the adapter has that of its constructor's default.
    """
    potential = build("gotennet", **options)
    config = potential.model.config
    module = gotennet.FAMILY.load()
    with lent_scatter():
        outputs = upstream("gotennet.models.components.outputs")
    with contained(torch.float64):
        network = module.GotenNetWrapper(
            n_atom_basis=config.channels,
            n_interactions=config.layers,
            n_rbf=config.basis,
            cutoff_fn=module.CosineCutoff(config.cutoff),
            num_heads=config.heads,
            lmax=config.lmax,
        ).eval()
        head = outputs.Atomwise(config.channels, activation=torch.nn.functional.silu, derivative="forces").eval()
    state = potential.model.representation.state_dict()
    give_weights(network, renamed(state, {"node_init.embedding.": "node_init."}), ELEMENTS)
    readout = renamed(
        potential.model.readout.state_dict(), {"0.": "out_net.1.out_net.0.", "2.": "out_net.1.out_net.1."}
    )
    give_weights(head, readout, ELEMENTS, own=["standardize.mean", "standardize.stddev"])  # zero and one
    monkeypatch.setattr(upstream("gotennet.models.components.layers"), "radius_graph", by_definition.radius_graph)

    def route(batch: Batch) -> tuple[Tensor, Tensor]:
        positions = batch.positions.clone().requires_grad_(True)
        inputs = upstream("torch_geometric.data").Data(z=batch.numbers, pos=positions, batch=batch.structure_of_atom)
        inputs.representation, _ = network(inputs)
        found = head(inputs)
        return found["y"][:, 0].detach(), found["forces"].detach()

    assert_same(potential, molecules, route)


def test_dimenet(molecules, monkeypatch):
    """The complete model for 95 elements, with pyg-lib's radius graph and torch-sparse's triplets by definition."""
    potential = build("dimenet++")
    config = potential.model.config
    module = dimenet.FAMILY.load()
    with contained(torch.float64):
        network = module.DimeNetPlusPlus(
            hidden_channels=config.channels,
            out_channels=1,
            num_blocks=config.layers,
            int_emb_size=config.triplet_embedding,
            basis_emb_size=config.basis_embedding,
            out_emb_channels=config.output_embedding,
            num_spherical=config.spherical,
            num_radial=config.basis,
            cutoff=config.cutoff,
            envelope_exponent=config.envelope_exponent,
        ).eval()
    give_weights(network, potential.model.network.state_dict(), ELEMENTS)
    monkeypatch.setattr(module, "radius_graph", by_definition.radius_graph)
    monkeypatch.setattr(module, "triplets", by_definition.triplets)

    def route(batch: Batch) -> tuple[Tensor, Tensor]:
        positions = batch.positions.clone().requires_grad_(True)
        energy = network(batch.numbers, positions, batch.structure_of_atom)[:, 0]
        return energy.detach(), forces_of(energy, positions)

    assert_same(potential, molecules, route)


def equiformer_features(
    model: equiformer.EquiformerModel, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, Any]:
    """Upstream's data and the features of its forward pass, on our edges and with its frames rolled as ours."""
    vectors = batch.vectors()
    species = torch.searchsorted(torch.tensor(ELEMENTS), batch.numbers)
    graph = SimpleNamespace(
        edge_index=torch.stack([batch.senders, batch.receivers]),
        edge_distance=torch.linalg.vector_norm(vectors, dim=1),
        edge_distance_vec=vectors,
        atomic_numbers_full=species,
        node_offset=0,
    )
    monkeypatch.setattr(model.network, "generate_graph", lambda *_, **__: graph, raising=False)
    monkeypatch.setattr(model.network, "_init_edge_rot_mat", lambda *_: model.frames.rotations(vectors), raising=False)
    data = SimpleNamespace(
        natoms=batch.atoms_per_structure(), pos=batch.positions, atomic_numbers=species, batch=batch.structure_of_atom
    )
    with contained(torch.float64):
        return data, model.network(data)


def equiformer_head(kind: str, model: equiformer.EquiformerModel, **blocks: torch.nn.Module) -> Any:
    """One of upstream's heads with the adapter's block in it."""
    with contained(torch.float64):
        head = getattr(equiformer.FAMILY.load()[0], kind)(model.network).double().eval()
    for name, block in blocks.items():
        setattr(head, name, block)
    return head


@pytest.mark.parametrize("name", ["equiformer-l2", "equiformer-l4"])
def test_equiformer(name, structures, monkeypatch):
    """Upstream's backbone and heads; its Wigner matrices come from Euler angles and a table."""
    potential = build(name)
    model, batch = potential.model, potential.batch(structures)
    expected = potential(batch)
    data, found = equiformer_features(model, batch, monkeypatch)
    scalar = equiformer_head("EqV2ScalarHead", model, energy_block=model.energy_block)
    vector = equiformer_head("EqV2VectorHead", model, force_block=model.force_block)
    # Upstream divides the energy of a structure by the mean number of atoms in Open Catalyst.
    energy = scalar(data, found)["energy"] * scalar.avg_num_nodes
    torch.testing.assert_close(energy, expected.energy, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(vector(data, found)["forces"], expected.forces, rtol=1e-10, atol=1e-10)


def test_gradients_of_equiformer_differ_by_those_of_its_frames(structures, monkeypatch):
    potential = build("equiformer-l2", forces="conservative")
    model, batch = potential.model, potential.batch(structures)
    positions = batch.positions.clone().requires_grad_(True)
    data, found = equiformer_features(model, batch.with_geometry(positions, batch.cell), monkeypatch)
    head = equiformer_head("EqV2ScalarHead", model, energy_block=model.energy_block)
    forces = forces_of(head(data, found)["energy"] * head.avg_num_nodes, positions)
    assert (forces - potential(batch).forces).abs().max() > 0.01
    matrices = EdgeFrames.forward
    monkeypatch.setattr(EdgeFrames, "forward", lambda *arguments: matrices(*arguments).detach())
    torch.testing.assert_close(forces, potential(batch).forces, rtol=1e-10, atol=1e-10)


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


def faenet_network(potential: Potential, monkeypatch: pytest.MonkeyPatch) -> Any:
    """FAENet for 84 elements, with pyg-lib's radius graph, which is not installed, by definition."""
    config = potential.model.config
    with contained(torch.float64):
        network = faenet.FAMILY.load().FAENet(
            cutoff=config.cutoff,
            preprocess="base_preprocess",
            num_gaussians=config.basis,
            num_filters=config.filters,
            hidden_channels=config.channels,
            tag_hidden_channels=0,
            pg_hidden_channels=0,
            num_interactions=config.layers,
            regress_forces="direct" if config.forces == "direct" else "from_energy",
            force_decoder_model_config={"mlp": {"hidden_channels": config.force_channels}},
        )
    network = network.double().eval()
    state = potential.model.network.state_dict()
    properties = "embed_block.phys_emb.properties"
    torch.testing.assert_close(network.state_dict()[properties][list(ELEMENTS)], state.pop(properties))
    give_weights(network, state, ELEMENTS, own=[properties])
    monkeypatch.setattr(upstream("faenet.utils"), "radius_graph", by_definition.radius_graph)
    return network


def faenet_route(network: Any, frames: str) -> Route:
    """Upstream's average over frames, which it makes for each structure by itself."""

    def route(batch: Batch) -> tuple[Tensor, Tensor]:
        sizes = batch.atoms_per_structure()
        average = upstream("faenet.frame_averaging").frame_averaging_3D
        made = [average(positions, fa_method=frames) for positions in batch.positions.split(sizes.tolist())]
        data = SimpleNamespace(
            pos=batch.positions,
            fa_pos=[torch.cat(each) for each in zip(*(positions for positions, _, _ in made), strict=True)],
            fa_rot=[torch.cat(each) for each in zip(*(rotations for _, _, rotations in made), strict=True)],
            atomic_numbers=batch.numbers,
            batch=batch.structure_of_atom,
            natoms=sizes,
        )
        forward = upstream("faenet.fa_forward").model_forward
        found = forward(data, network, frame_averaging="3D", mode="inference", crystal_task=False)
        # Upstream adds the last bias once per structure, the adapter once per atom.
        return (found["energy"] + (sizes - 1) * network.mlp_skip_co.bias).detach(), found["forces"].detach()

    return route


@pytest.mark.parametrize(("ours", "theirs"), [("stochastic", "det"), ("all", "all")])
def test_faenet(ours, theirs, molecules, monkeypatch):
    """Upstream's forward pass and its average over frames; outside training, a random frame is the one of 'det'."""
    potential = build("faenet", frames=ours)
    assert_same(potential, molecules, faenet_route(faenet_network(potential, monkeypatch), theirs))


def test_gradients_of_faenet_differ_by_those_of_its_frames(molecules, monkeypatch):
    potential = build("faenet", forces="conservative")
    route = faenet_route(faenet_network(potential, monkeypatch), "det")
    batch = potential.batch(molecules)
    with contained(torch.float64):
        _, forces = route(batch)
    assert (forces - potential(batch).forces).abs().max() > 1e-3
    axes = faenet.principal_axes
    monkeypatch.setattr(faenet, "principal_axes", lambda given: axes(given).detach())
    assert_same(potential, molecules, route)


def test_faenet_in_all_frames_is_equivariant():
    potential = build("faenet", frames="all", graph_norm=False)
    check_equivariance(*of_potential(potential, random_cluster(ELEMENTS, 6)), tolerance=1e-9)


def test_the_stand_in_for_torch_scatter_adds_up():
    pytest.importorskip("torch_geometric")
    values, index = torch.randn(7, 3), torch.tensor([0, 2, 2, 0, 1, 4, 4])
    with lent_scatter():
        found = importlib.import_module("torch_scatter").scatter(values, index, dim=0, reduce="add")
    torch.testing.assert_close(found, torch.zeros(5, 3).index_add(0, index, values))


def test_equiformer_turns_with_its_structure_when_its_grid_is_fine():
    potential = build("equiformer-l4", grid_resolution=40)
    for structure in (random_cluster((1, 6, 8), atoms=8), triclinic_crystal((1, 6, 8))):
        check_equivariance(*of_potential(potential, structure), ["rotation"], tolerance=1e-9)
