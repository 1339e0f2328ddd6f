import numpy as np
import pytest
import torch

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.model.config import json_schema, parse_config
from cliffordstf.model.presets import ABLATION, PRESETS, preset
from cliffordstf.verify.parameters import RELEASE, count, count_by_block
from cliffordstf.verify.structures import random_cluster, triclinic_crystal


def all_elements_batch(potential: cliffordstf.Potential) -> cliffordstf.Batch:
    """Every element the potential knows and every distance its radial basis resolves."""
    elements = potential.elements
    groups = [elements[start : start + 10] for start in range(0, len(elements), 10)]
    # Several atoms of each element: one alone may sit at the edge of its cluster, where little can be seen of it.
    clusters = [random_cluster(group, atoms=4 * len(group), seed=seed) for seed, group in enumerate(groups)]
    # Gaussians near zero (paper profile) only see atoms that close; a Bessel basis has no such local functions.
    shortest = 0.05 if hasattr(potential.model, "radial_basis") else 0.9
    trimers = [
        cliffordstf.Structure([1, 6, 8], np.array([[0, 0, 0], [0, 0.1, d], [0.3 * d, 0.9, -0.5 * d]]))
        for d in np.linspace(shortest, potential.cutoff, 40)
    ]
    return potential.batch([*clusters, *trimers, triclinic_crystal((1, 6, 8))])


def dead_entries(potential: cliffordstf.Potential, losses: int = 1) -> dict[str, int]:
    """Entries of parameters whose gradient is zero or rounding noise for each of some random losses, by parameter."""
    batch = all_elements_batch(potential)
    dead = quiet_entries(potential, batch, seed=1)
    for seed in range(2, losses + 1):
        again = quiet_entries(potential, batch, seed)
        dead = {name: mask & again[name] for name, mask in dead.items()}
    return {name: int(mask.sum()) for name, mask in dead.items() if mask.any()}


def quiet_entries(potential: cliffordstf.Potential, batch: cliffordstf.Batch, seed: int) -> dict[str, torch.Tensor]:
    """Which entries of each parameter a random loss of energies and forces does not feel."""
    potential.zero_grad()
    prediction = potential(batch, train=True)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(prediction.forces.shape, generator=generator, dtype=torch.float64)
    loss = (prediction.energy * torch.randn(prediction.energy.shape, generator=generator)).sum()
    (loss + (prediction.forces * weights).sum()).backward()
    sizes = {
        name: p.grad.abs() if p.grad is not None else torch.zeros_like(p) for name, p in potential.named_parameters()
    }
    noise = 1e-14 * max(float(size.max()) for size in sizes.values())
    masks = {}
    for name, size in sizes.items():
        masks[name] = size <= noise
        if ".product.weights." in name and size.ndim == 3:
            # Elements share their couplings: what is noise for one may be signal for another in denser surroundings.
            masks[name] = (size == 0) | (size.amax(dim=0) <= noise)
    return masks


@pytest.mark.parametrize("name", PRESETS)
def test_every_weight_gets_a_gradient(name):
    """Not one entry of one parameter is without effect on energy and forces."""
    if name == "default/10m":
        # Ten elements are enough for the widest, and much quicker: the weights of each are made alike. Of ten million
        # gradients a few are as small as noise by chance, others for another loss.
        assert not dead_entries(cliffordstf.build(name, elements=list(range(1, 11)), seed=0).double(), losses=2)
    else:
        assert not dead_entries(cliffordstf.build(name, seed=0).double())


@pytest.mark.parametrize(
    "name", ["paper/full", "paper/scaffold", "paper/clifford", "paper/output-only", "paper/stf2-static"]
)
def test_conservative_paper_models_have_no_dead_weight_either(name):
    assert not dead_entries(cliffordstf.build(name, seed=0, forces="conservative", channels=8, hidden=8).double())


@pytest.mark.parametrize(
    "overrides",
    [{"lmax": 1}, {"lmax": 4}, {"body_order": 2}, {"body_order": 5}, {"pseudoscalar": True}, {"node_lmax": 1}],
)
def test_no_choice_of_tracks_leaves_dead_weights(overrides):
    assert not dead_entries(cliffordstf.build("default", seed=0, channels=8, hidden=8, **overrides).double())


def test_the_search_for_dead_weights_finds_them():
    potential = cliffordstf.build("paper/clifford", seed=0, channels=8, hidden=8).double()
    potential.model.register_parameter("unused", torch.nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    assert dead_entries(potential) == {"model.unused": 3}


@pytest.mark.parametrize(("name", "published"), [("paper/full", 1_056_534), ("paper/full-10m", 10_170_578)])
def test_parameter_count_is_close_to_the_papers(name, published):
    assert abs(count(cliffordstf.build(name)) / published - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "expected", "tolerance"),
    [
        ("default/1m", 1e6, 0.05),
        ("default/10m", 1e7, 0.05),
        ("paper/full", 1e6, 0.05),
        ("paper/full-10m", 1e7, 0.05),
        # Its settings are the paper's, and the paper prints no count beside "10^7": see docs/paper.md.
        ("paper/clifford-10m", 1e7, 0.15),
    ],
)
def test_the_models_of_the_scaling_check_have_about_a_million_and_ten_million_parameters(name, expected, tolerance):
    assert count(cliffordstf.build(name, elements=[1, 6, 7, 8])) == pytest.approx(expected, rel=tolerance)


def test_blocks_add_up():
    potential = cliffordstf.build("paper/full")
    blocks = count_by_block(potential.model)
    assert sum(blocks.values()) == count(potential)
    assert "other" not in blocks
    assert sum(RELEASE["paper/full"].values()) == 1_056_534
    assert set(blocks) <= set(RELEASE["paper/full"])
    for name in PRESETS:
        assert "other" not in count_by_block(cliffordstf.build(name, channels=8).model)


def test_the_ablation_has_twelve_rows():
    assert len(set(ABLATION)) == 12
    counts = [count(cliffordstf.build(name)) for name in ABLATION]
    assert all(0.5e6 < number < 1.5e6 for number in counts)


def test_flags_off_and_max_grade_one_is_the_vanilla_clifford_model_bit_for_bit():
    flags = {
        "stf_degrees": (), "hodge_forces": False, "cross_track": False, "routing": "none", "max_grade": 1,
        "edge_stf2": False, "channels": 80, "hidden": 80,
    }  # fmt: skip
    switched_off = cliffordstf.build("paper/full", seed=3, **flags)
    vanilla = cliffordstf.build("paper/clifford", seed=3)
    structures = [random_cluster((1, 6, 8)), triclinic_crystal((1, 6, 8))]
    first, second = switched_off.predict(structures), vanilla.predict(structures)
    assert torch.equal(first.energy, second.energy)
    assert torch.equal(first.forces, second.forces)


def test_scaffold_keeps_all_grades_and_vanilla_does_not():
    scaffold, vanilla = (cliffordstf.build(f"paper/{name}").model for name in ("scaffold", "clifford"))
    assert [len(layer.layout) for layer in scaffold.layers] == [2, 3, 4, 4, 2]
    assert [len(layer.layout) for layer in vanilla.layers] == [2, 2, 2, 2, 2]


def test_grades_grow_layer_by_layer():
    layouts = [
        [track.grade for track in layer.layout if track.grade is not None]
        for layer in cliffordstf.build("paper/full").model.layers
    ]
    assert layouts == [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2]]


def test_seed_is_reproducible_and_leaves_the_global_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (cliffordstf.build("default", seed=1, elements=["H"]) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("paper/ful", {}, "there is no preset 'paper/ful' \\(did you mean 'paper/full'\\?\\)"),
        ("default", {"chanels": 3}, "there is no option 'model.chanels' \\(did you mean 'channels'\\?\\)"),
        ("default", {"lmax": 9}, "option 'model.lmax' is 9, but it must be a whole number from 1 to 4"),
        ("paper/full", {"channels": 61}, "channels=61 must be a multiple of heads=4"),
        ("paper/full", {"stf_degrees": (3,)}, "stf_degrees=\\(3,\\) must be"),
        ("paper/full", {"stf_degrees": ()}, "routing gates the STF tracks"),
        ("default", {"forces": "direct"}, "option 'model.forces' is 'direct', but it must be 'conservative'"),
    ],
)
def test_bad_options_are_one_clear_error(name, overrides, message):
    with pytest.raises(ConfigError, match=message):
        cliffordstf.build(name, **overrides)


def test_unknown_profile():
    with pytest.raises(ConfigError, match="profile='papre' is not a model"):
        parse_config({"profile": "papre"})


def test_config_round_trips_and_has_a_schema():
    for name in PRESETS:
        config = preset(name)
        assert parse_config(config.model_dump()) == config
    schema = json_schema()
    assert "PaperConfig" in schema["$defs"]
    described = schema["$defs"]["DefaultConfig"]["properties"]["channels"]
    assert described["description"]


@pytest.mark.parametrize("name", ["default", "default/small", *ABLATION])
def test_atomic_energies_start_near_zero(name):
    """A random start of a few eV has to be unlearned by the few energies there are, where forces do not help."""
    potential = cliffordstf.build(name, elements=[1, 6, 8], seed=0)
    batch = potential.batch([random_cluster((1, 6, 8), atoms=12, seed=seed) for seed in range(4)])
    energies = potential(batch).energy / 12
    assert 0 < energies.abs().max() < 0.1 * float(potential.reference.scale)
