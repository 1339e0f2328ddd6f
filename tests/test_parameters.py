"""The numbers of docs/parameters.md are what the code counts."""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cliffordstf
from cliffordstf import zoo
from cliffordstf.bench.literature.paper_values import paper_models, paper_value
from cliffordstf.bench.speed.contenders import ours
from cliffordstf.verify.parameters import count
from cliffordstf.zoo.upstream import upstream

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")


def table(section: str) -> list[list[str]]:
    """Cells of the rows of the table below a heading."""
    _, _, below = f"\n{TEXT}".partition(f"\n{section}\n")
    lines = re.findall(r"^\|(.+)\|$", below.partition("\n#")[0], flags=re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


COUNTS = {name: list(map(number, cells)) for name, *cells in table("# Parameters beside the paper's table of times")}
FITTING = {cells[0]: list(map(number, cells[2:])) for cells in table("## Settings that give the printed count")}
OTHERS = {cells[0]: list(map(number, cells[2:])) for cells in table("## Settings that do not give the printed count")}


def printed(name: str) -> int:
    value = paper_value("wallclock", name, "parameters")
    assert value is not None
    return int(value.value)


@functools.cache
def potential(name: str, elements: int = 100, **options: Any) -> cliffordstf.Potential:
    """The model of a row of the paper's settings for rMD17."""
    if name.startswith("paper/"):
        return cliffordstf.build(name, elements=range(1, elements + 1), **options)
    peer = f"{name}-md17"
    if problem := zoo.available(peer):
        pytest.skip(problem)
    return zoo.build(peer, range(1, elements + 1), seed=0, **options)


def parameters(name: str, elements: int = 100, **options: Any) -> int:
    return count(potential(name, elements, **options))


def test_every_model_of_the_papers_table_stands_in_ours():
    assert list(COUNTS) == paper_models("wallclock")
    timed = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))["rows"]
    timed_parameters = {row["name"]: row["parameters"] for row in timed}
    for name, (timed_count, counted, paper, difference) in COUNTS.items():
        assert (timed_count, paper) == (timed_parameters[name], printed(name)), name
        assert difference == counted - paper, name


def test_differences_are_either_explained_or_said_not_to_be():
    differing = {name for name, numbers in COUNTS.items() if numbers[-1]}
    assert differing == {*FITTING, *OTHERS, "paper/full", "paper/clifford"}
    for name, (found, paper) in FITTING.items():
        assert found == paper == printed(name)
    for name, (found, paper, difference) in OTHERS.items():
        assert (paper, difference) == (printed(name), found - paper)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_for_a_hundred_elements(name):
    assert parameters(name) == COUNTS[name][1]


def test_our_own_models_have_as_many_parameters_as_when_they_were_timed():
    for contender in ours(["paper/full", "paper/clifford"]):
        assert contender.parameters == COUNTS[contender.name][0]


def with_residual_first_layer(name: str) -> int:
    """MACE with upstream's other block in its first layer."""
    if problem := zoo.available(name):
        pytest.skip(problem)
    modules = upstream("mace.modules")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules, "RealAgnosticInteractionBlock", modules.RealAgnosticResidualInteractionBlock)
        return count(zoo.build(f"{name}-md17", range(1, 101), seed=0))


def without_learned_basis() -> int:
    basis = potential("torchmd-et").model.representation.distance_expansion
    return parameters("torchmd-et") - count(basis)


READINGS: dict[str, Callable[[], int]] = {
    "mace-l1": lambda: with_residual_first_layer("mace-l1"),
    "mace-l2": lambda: with_residual_first_layer("mace-l2"),
    "mace-l3": lambda: with_residual_first_layer("mace-l3"),
    "dimenet++": lambda: parameters("dimenet++", 95),
    "faenet": lambda: parameters("faenet", 85, forces="conservative"),
    "torchmd-et": without_learned_basis,
    "visnet": lambda: parameters("visnet") + 100,
    "painn": lambda: parameters("painn") - count(potential("painn").model.readout),
    # Upstream keeps a row for padding in both of its tables of elements.
    "gotennet": lambda: parameters("gotennet", 99, lmax=1) - count(potential("gotennet").model.readout),
    "equiformer-l2": lambda: parameters("equiformer-l2", channels=28),
    "equiformer-l3": lambda: parameters("equiformer-l3"),
    "equiformer-l4": lambda: parameters("equiformer-l4"),
    "nequip-l1": lambda: parameters("nequip-l1"),
}


@pytest.mark.parametrize("name", [*FITTING, *OTHERS])
def test_each_way_to_count(name):
    assert READINGS[name]() == {**FITTING, **OTHERS}[name][0]


@pytest.mark.parametrize(("name", "weights"), [("painn", 10_513), ("gotennet", 4_705)])
def test_readouts_of_ours(name, weights):
    assert f"our readout of {weights:,} weights" in TEXT
    assert count(potential(name).model.readout) == weights


def test_gotennet_of_degree_two():
    assert "36,864 weights more" in TEXT
    assert parameters("gotennet") - parameters("gotennet", lmax=1) == 36_864


@pytest.mark.parametrize(("elements", "options"), [(99, {}), (101, {}), (100, {"forces": "conservative"})])
def test_equiformers_differences_agree_for_a_hundred_elements_only(elements, options):
    over = {name: parameters(name, elements, **options) - printed(name) for name in ("equiformer-l3", "equiformer-l4")}
    assert len(set(over.values())) == 2


@pytest.mark.parametrize(("depth", "expected"), [(1, 975_900), (2, 992_284), (3, 1_008_668)])
def test_nequip_with_other_radial_networks(depth, expected):
    assert f"{expected:,}" in TEXT
    assert parameters("nequip-l1", radial_width=64, radial_depth=depth) == expected


@pytest.mark.parametrize("row", table("## Our own models"), ids=" ".join)
def test_the_clifford_model_in_other_widths_and_grades(row):
    channels, grades, edge, found, share = row
    width = int(channels)
    built = parameters(
        "paper/clifford", channels=width, hidden=width, max_grade=int(grades[-1]), edge_stf2=edge == "yes"
    )
    assert number(found) == built
    assert share == f"{100 * built / printed('paper/clifford'):.0f} %"
