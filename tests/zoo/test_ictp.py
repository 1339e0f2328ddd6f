"""ICTP is ours: its tensor products against their definition, its layers against loops, its size against the paper."""

import string

import numpy as np
import pytest
import torch
from torch import Tensor

from cliffordstf import zoo
from cliffordstf.algebra.couplings import coupling, is_admissible, unit_scale
from cliffordstf.algebra.stf import from_cartesian, stf_powers, to_cartesian
from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout
from cliffordstf.data.batch import make_batch
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError
from cliffordstf.nn.geometry import Geometry
from cliffordstf.verify.structures import random_cluster, triclinic_crystal
from cliffordstf.zoo.ictp_layers import (
    ElementGroups,
    ElementLinear,
    PathConvolution,
    Paths,
    ProductBasis,
    natural_layout,
)

ELEMENTS = (1, 6, 8)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def natural(l1: int, l2: int, l3: int) -> bool:
    return is_admissible(l1, l2, l3) and (l1 + l2 + l3) % 2 == 0


def from_table(a: Tensor, l1: int, b: Tensor, l2: int, l3: int) -> Tensor:
    """One normalised entry of the coupling table, (atoms, 2l+1, channels) each."""
    return torch.einsum("nac,nbc,abk->nkc", a, b, coupling(l1, l2, l3).tensor()) * unit_scale(l1, l2, l3)


def from_definition(a: Tensor, l1: int, b: Tensor, l2: int, l3: int) -> Tensor:
    """Contract full Cartesian tensors over (l1+l2-l3)/2 pairs of indices, keep the symmetric traceless part."""
    letters = iter(string.ascii_lowercase)
    contracted = (l1 + l2 - l3) // 2
    shared = [next(letters) for _ in range(contracted)]
    left = [next(letters) for _ in range(l1 - contracted)]
    right = [next(letters) for _ in range(l2 - contracted)]
    equation = f"N{''.join(shared + left)}C,N{''.join(shared + right)}C->N{''.join(left + right)}C"
    return from_cartesian(torch.einsum(equation, to_cartesian(a, l1), to_cartesian(b, l2)), l3)


@pytest.mark.parametrize("lmax", [1, 2, 3])
def test_pair_products_are_the_irreducible_cartesian_products(lmax):
    layout = natural_layout(lmax)
    basis = ProductBasis(layout, layout, correlation=2)
    features = draw(5, layout.dims, 2)
    found = basis(features)
    tensors = [layout.take(features, track) for track in layout]
    for l3, track in enumerate(layout):
        first, *products = found[track].split(track.dims, dim=1)
        assert torch.equal(first, tensors[l3])
        pairs = [(l1, l2) for l1 in range(lmax + 1) for l2 in range(lmax + 1) if natural(l1, l2, l3)]
        assert len(pairs) == len(products)
        for (l1, l2), product in zip(pairs, products, strict=True):
            torch.testing.assert_close(product, from_table(tensors[l1], l1, tensors[l2], l2, l3))
            defined = from_definition(tensors[l1], l1, tensors[l2], l2, l3)
            torch.testing.assert_close(product, defined * unit_scale(l1, l2, l3))


def test_triple_products_are_nested_pair_products():
    layout, wanted = natural_layout(3), natural_layout(2)
    features = draw(4, layout.dims, 3)
    tensors = [layout.take(features, track) for track in layout]
    pairs = [
        (l3, from_table(tensors[l1], l1, tensors[l2], l2, l3))
        for l1 in range(4)
        for l2 in range(4)
        for l3 in range(4)
        if natural(l1, l2, l3)
    ]
    found = ProductBasis(layout, wanted, correlation=3)(features)
    for degree, track in enumerate(wanted):
        expected = [tensors[degree], *(pair for rank, pair in pairs if rank == degree)]
        expected += [
            from_table(pair, rank, tensors[third], third, degree)
            for rank, pair in pairs
            for third in range(4)
            if natural(rank, third, degree)
        ]
        torch.testing.assert_close(found[track], torch.cat(expected, dim=1))


def test_vector_times_vector_by_hand():
    """(1, 2, 3) with itself: its square, and the traceless part of its outer product; xx, xy, xz, yy, yz."""
    layout = natural_layout(2)
    features = torch.tensor([0, 1, 2, 3, 0, 0, 0, 0, 0], dtype=torch.float64)[None, :, None]
    found = ProductBasis(layout, layout, correlation=2)(features)
    third = 14 / 3
    traceless = torch.tensor([1 - third, 2, 3, 4 - third, 6], dtype=torch.float64)
    products = found[STF2].unflatten(1, (-1, 5))[0, :, :, 0]
    torch.testing.assert_close(products[products.any(dim=1)], traceless[None] * unit_scale(1, 1, 2))
    squares = found[SCALAR][0, :, 0]
    torch.testing.assert_close(squares[squares != 0], torch.full((1,), 14.0 * unit_scale(1, 1, 0)).double())


def test_convolution_by_hand():
    """An atom with the vector (1, 2, 3), seen along z from another: the symmetric traceless part of v ⊗ z."""
    batch = make_batch(Structure([1, 1], np.array([[0, 0, 0], [0, 0, 1.5]])), 3.0)
    geometry = Geometry.from_vectors(batch.pair_vectors(), batch.edges, 2)
    convolution = PathConvolution(Layout((VECTOR,)), 1, Layout((STF2,)), 1, 1, average_neighbours=4.0).double()
    assert len(convolution.plan.paths) == 1
    features = torch.tensor([[0, 0, 0], [1, 2, 3]], dtype=torch.float64)[:, :, None]
    radial = torch.full((1, 1), 5.0, dtype=torch.float64)
    found = convolution(features, radial, geometry.directions, batch.edges)
    traceless = torch.tensor([-1, 0, 0.5, -1, 1], dtype=torch.float64)
    # Unit components: a direction has the length sqrt(3).
    factor = 5 * convolution.mixing.item() * 3**0.5 * unit_scale(1, 1, 2) / 4**0.5
    torch.testing.assert_close(found[0, :, 0], traceless * factor)
    assert not found[1].any()


def test_convolution_equals_a_loop_over_edges():
    source, target = natural_layout(2), natural_layout(3)
    convolution = PathConvolution(source, 3, target, 4, 2, average_neighbours=9.0).double()
    batch = make_batch(triclinic_crystal(ELEMENTS), 4.0)
    features, radial = draw(len(batch.numbers), source.dims, 2), draw(len(batch.edges.pair_edges), 4)
    pairs = Geometry.from_vectors(batch.pair_vectors(), batch.edges, len(batch.numbers))
    found = convolution(features, radial, pairs.directions, batch.edges)
    edges = Geometry.from_vectors(batch.vectors(), batch.edges, len(batch.numbers))
    directions, _ = stf_powers(edges.directions, 3, unit=True)
    paths = [(a, b, c) for a in range(3) for b in range(4) for c in range(4) if natural(a, b, c)]
    expected = {track: [] for track in target}
    weights = torch.einsum("pf,frc->prc", radial, convolution.mixing)[batch.edges.pair] / (4 * 9.0) ** 0.5
    for row, (a, b, c) in enumerate(paths):
        sent = source.take(features, source.tracks[a])[batch.senders]
        direction = directions[:, b**2 : (b + 1) ** 2, None].expand(-1, -1, 2)
        messages = from_table(sent, a, direction, b, c) * weights[:, row, None]
        expected[target.tracks[c]].append(edges.sum_over_edges(messages))
    torch.testing.assert_close(found, torch.cat([part for parts in expected.values() for part in parts], dim=1))


def test_every_element_has_its_own_matrices():
    paths = Paths([SCALAR, STF2, SCALAR])
    linear = ElementLinear(paths, elements=4, in_channels=3, out_channels=2).double()
    species = torch.tensor([3, 0, 3, 1, 0])
    features = draw(5, paths.dims, 3)
    groups = ElementGroups.of(species)
    parts = paths.split(features.index_select(0, groups.order))
    found = linear(parts, groups).index_select(0, groups.back)
    for atom, kind in enumerate(species.tolist()):
        first, second, third = linear.weight[kind]
        scalar = (features[atom, 0] @ first + features[atom, 1] @ second) / 6**0.5
        torch.testing.assert_close(found[atom, 0], scalar)
        torch.testing.assert_close(found[atom, 1:], features[atom, 2:] @ third / 3**0.5)


@pytest.mark.parametrize(("name", "published"), [("ictp-l1", 1_039_554), ("ictp-l2", 997_368), ("ictp-l3", 982_752)])
def test_as_many_parameters_as_the_paper_says(name, published):
    potential = zoo.build(name, None, seed=0)
    assert sum(weight.numel() for weight in potential.parameters()) == published
    assert potential.cutoff == 6.0


VARIANTS = [
    ("ictp-l1", {}),
    ("ictp-l2", {}),
    ("ictp-l3", {}),
    ("ictp-l2", {"channels": 3, "product_channels": 5}),
    ("ictp-l1", {"correlation": 1, "layers": 3}),
    ("ictp-l1", {"correlation": 2, "layers": 1}),
    ("ictp-l1", {"correlation": 4, "channels": 2, "product_channels": 2, "max_ell": 1}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_no_weight_is_dead(name, options):
    """Not one entry of any weight, with every element in the batch."""
    potential = zoo.build(name, ELEMENTS, seed=0, dtype=torch.float64, **options)
    structures = [random_cluster(ELEMENTS, 9, seed=1), triclinic_crystal(ELEMENTS)]
    prediction = potential(potential.batch(structures), train=True)
    (prediction.energy.square().sum() + (prediction.forces - 0.1).square().sum()).backward()
    dead = {key: int((weight.grad == 0).sum()) for key, weight in potential.named_parameters()}
    assert {key: count for key, count in dead.items() if count} == {}


def test_ranks_between_layers_must_be_made_by_the_products():
    with pytest.raises(ConfigError, match="lmax=3 must not exceed max_ell=2"):
        zoo.build("ictp-l3", ELEMENTS, max_ell=2)
