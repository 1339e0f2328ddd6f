import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from cliffordstf.algebra.tracks import SCALAR, STF2, VECTOR, Layout
from cliffordstf.nn.interaction import DefaultInteraction, EdgeInputs, PaperInteraction
from cliffordstf.nn.message import EdgeEmbedding
from cliffordstf.nn.radial import GaussianBasis, RadialFunctions, cosine_envelope
from tests.equivariance import ATOM_INVARIANTS, POSITIONS, SYMMETRIES, check_equivariance, equivariance_errors, tracks
from tests.equivariance import PAIRS as PAIR_INDICES
from tests.nn.samples import (
    ATOMS,
    CHANNELS,
    CUTOFF,
    FULL,
    PAIRS,
    SPECIES,
    check_gradients,
    draw,
    edge_geometry,
    features,
    made,
    mean_square,
    pair_geometry,
    positions,
    standard,
)

FUNCTIONS, BASIS = 4, 10
SCALARS, SMALL = Layout((SCALAR,)), Layout((SCALAR, VECTOR, STF2))
RADIAL = made(lambda: RadialFunctions(8, CUTOFF, 6, 16, 1, FUNCTIONS, 1))


def default(source: Layout, wanted: Layout, body_order: int = 4, channels: int = CHANNELS) -> DefaultInteraction:
    return made(
        lambda: DefaultInteraction(
            source,
            FULL,
            wanted,
            elements=2,
            lmax=3,
            channels=channels,
            radial_functions=FUNCTIONS,
            average_neighbours=4.0,
            body_order=body_order,
        )
    )


def paper(source: Layout, wanted: Layout, body_order: int = 4, channels: int = CHANNELS) -> PaperInteraction:
    return made(
        lambda: PaperInteraction(
            source,
            FULL,
            FULL,
            wanted,
            channels=channels,
            basis=BASIS,
            heads=2,
            body_order=body_order,
            edge_stf2=True,
            cross=True,
        )
    )


def of_pairs(places: Tensor, pairs: Tensor = PAIRS) -> tuple:
    """Radial functions, directions and edges for the default layer."""
    geometry = pair_geometry(places, pairs)
    return RADIAL(geometry.distances)[0], geometry.directions, geometry.edges


def of_edges(places: Tensor, pairs: Tensor = PAIRS, channels: int = CHANNELS) -> EdgeInputs:
    """What the paper's layers share."""
    geometry = edge_geometry(places, pairs)
    lengths = geometry.pair_distances()
    basis, envelope = GaussianBasis(BASIS, CUTOFF).double()(lengths), cosine_envelope(lengths, CUTOFF)
    hidden = made(lambda: EdgeEmbedding(BASIS, channels, stf2=True))(basis, envelope)
    return EdgeInputs(geometry, geometry.direction_tensors(2), basis, envelope, hidden)


def inputs(layout: Layout) -> list:
    return [(0.5 * features(layout), tracks(layout)), (positions(), POSITIONS), (PAIRS, PAIR_INDICES)]


@pytest.mark.parametrize("body_order", [2, 3, 4])
@pytest.mark.parametrize(("source", "wanted"), [(FULL, FULL), (SCALARS, FULL), (FULL, SCALARS)])
def test_the_default_layer_is_equivariant(source, wanted, body_order):
    layer = default(source, wanted, body_order)
    x = features(source)
    assert layer(x, SPECIES, *of_pairs(positions())).shape == (ATOMS, layer.layout.dims, CHANNELS)
    assert set(layer.layout) <= set(wanted)
    check_equivariance(
        lambda x, places, pairs, species: layer(x, species, *of_pairs(places, pairs)),
        [*inputs(source), (SPECIES, ATOM_INVARIANTS)],
        tracks(layer.layout),
    )


@pytest.mark.parametrize("body_order", [2, 3, 4])
@pytest.mark.parametrize(("source", "wanted"), [(FULL, FULL), (SCALARS, FULL), (FULL, SCALARS)])
def test_the_papers_layer_breaks_reflections_and_nothing_else(source, wanted, body_order):
    layer = paper(source, wanted, body_order)
    assert layer(features(source), of_edges(positions())).shape == (ATOMS, layer.layout.dims, CHANNELS)
    errors = equivariance_errors(
        lambda x, places, pairs: layer(x, of_edges(places, pairs)), inputs(source), tracks(layer.layout), SYMMETRIES
    )
    reflection = errors.pop("reflection")
    assert max(errors.values()) < 1e-10
    # S×v needs a product, and the scalars that one layer makes of it, S:(v×S), vanish.
    assert (reflection > 1e-4) == (body_order > 2 and wanted != SCALARS)


@pytest.mark.parametrize("source", [SMALL, SCALARS], ids=str)
def test_gradients_of_the_default_layer(source):
    layer = default(source, SMALL, 3, channels=2)
    check_gradients(
        layer, [features(source, channels=2), positions()], lambda x, places: (x, SPECIES, *of_pairs(places))
    )


@pytest.mark.parametrize("source", [SMALL, SCALARS], ids=str)
def test_gradients_of_the_papers_layer(source):
    layer = paper(source, SMALL, 3, channels=2)
    check_gradients(
        layer,
        [features(source, channels=2), positions()],
        lambda x, places: (x, of_edges(places, channels=2)),
        of_weights=False,
    )


def test_an_isolated_atom_is_not_affected_by_the_others():
    x, moved = features(FULL), positions()
    moved[:-1] += 0.1 * draw(ATOMS - 1, 3, seed=3)
    default_layer, paper_layer = default(FULL, FULL), paper(FULL, FULL)
    for function in (
        lambda places, pairs=PAIRS: default_layer(x, SPECIES, *of_pairs(places, pairs)),
        lambda places, pairs=PAIRS: paper_layer(x, of_edges(places, pairs)),
    ):
        before, after, alone = function(positions()), function(moved), function(positions(), PAIRS[:0])
        torch.testing.assert_close(before[-1], after[-1])
        torch.testing.assert_close(before[-1], alone[-1])
        assert ((before - after)[:-1].abs().amax(dim=(1, 2)) > 1e-3).all()
        assert before[-1].abs().max() > 1e-3


def test_the_elements_of_atoms_matter():
    x, layer = features(FULL), default(FULL, FULL)
    with torch.no_grad():
        first, second = (layer(x, species, *of_pairs(positions())) for species in (SPECIES, 1 - SPECIES))
    assert ((first - second)[:-1].abs().amax(dim=(1, 2)) > 1e-5).all()


def test_the_papers_layer_takes_wider_features():
    layer, x = paper(FULL, FULL), features(FULL)
    wide = layer(pad(x, (0, 5)), of_edges(positions()))
    torch.testing.assert_close(wide[..., :CHANNELS], layer(x, of_edges(positions())), rtol=0, atol=1e-10)
    assert not wide[..., CHANNELS:].any()


def test_the_default_layer_keeps_about_unit_variance():
    torch.manual_seed(0)
    atoms, half, channels = 400, 3, 32
    pairs = torch.tensor([(i, (i + step) % atoms) for i in range(atoms) for step in range(1, half + 1)])
    directions = torch.nn.functional.normalize(draw(len(pairs), 3, seed=1), dim=1)
    layer = DefaultInteraction(
        FULL,
        FULL,
        FULL,
        elements=1,
        lmax=3,
        channels=channels,
        radial_functions=64,
        average_neighbours=2.0 * half,
        body_order=3,
    ).double()
    edges = pair_geometry(draw(atoms, 3), pairs).edges
    species = torch.zeros(atoms, dtype=torch.int64)
    found = layer(standard(FULL, atoms, channels), species, draw(len(pairs), 64, seed=2), directions, edges)
    for track, part in layer.layout.split(found).items():
        assert 0.5 < mean_square(part, track) < 2, track.name
