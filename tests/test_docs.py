"""What the documentation says of tests and dependencies is true."""

import json
import re
import tomllib
from pathlib import Path
from statistics import mean

import pytest

from cliffordstf.bench.claims import OUTPUT_ONLY, SCAFFOLD, VANILLA
from cliffordstf.bench.numbers import passes
from cliffordstf.bench.paper import paper_value
from cliffordstf.bench.paper_tables import paper_tables
from cliffordstf.bench.published import RMD17_MOLECULES, rmd17
from cliffordstf.bench.speed_tables import PEERS, speed_tables
from cliffordstf.bench.sweep import read_results
from cliffordstf.bench.tables import all_tables

ROOT = Path(__file__).parents[1]

LEADERBOARDS = {"leaderboard": "A", "leaderboard-xeon": "X"}
"""Folders of results, and what the README calls their machines."""


def test_every_test_that_the_complaints_name_exists():
    text = (ROOT / "docs" / "complaints.md").read_text(encoding="utf-8")
    file = None
    named = re.findall(r"`((?:tests/|…)[^`]*)`", text)
    assert len(named) > 20
    for reference in named:
        path, _, function = reference.partition("::")
        if path != "…":
            file = ROOT / path
        assert file is not None
        assert file.is_file(), reference
        if function:
            assert f"def {function}(" in file.read_text(encoding="utf-8"), reference


def test_the_core_needs_no_equivariance_library():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[ ]", requirement)[0] for requirement in project["dependencies"]}
    assert not names & {"e3nn", "torch-geometric", "torch-scatter", "torch-cluster"}


def test_linked_documents_exist():
    for document in (ROOT / "docs").glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_measured_tables_are_what_the_results_say():
    report = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))
    assert report["commit"]
    expected = "\n".join(table.markdown() for table in speed_tables(report))
    assert (ROOT / "docs" / "speed-measured.md").read_text(encoding="utf-8") == expected
    in_paper_layout = "\n".join(table.markdown() for table in paper_tables([report]))
    assert (ROOT / "docs" / "wall-clock.md").read_text(encoding="utf-8") == in_paper_layout


def test_the_tables_in_the_papers_layout_are_what_the_results_say():
    folders = (*LEADERBOARDS, "ablation", "qm9")
    results = [result for folder in folders for result in read_results(ROOT / "results" / folder)]
    expected = "\n".join(table.markdown() for table in paper_tables(results))
    assert (ROOT / "docs" / "paper-tables.md").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("study", sorted({folder.name for folder in (ROOT / "results").iterdir()} - {"speed"}))
def test_tables_are_what_the_results_say(study):
    results = read_results(ROOT / "results" / study)
    assert results
    assert all(result["commit"] and "+" not in result["commit"] for result in results)
    expected = "\n".join(table.markdown() for table in all_tables(results))
    assert (ROOT / "docs" / f"{study}.md").read_text(encoding="utf-8") == expected


def test_the_ratios_in_the_readme_are_what_the_results_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    ratios = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))["ratios"]
    for kind, label in (("inference", "inference"), ("training", "training step"), ("latency", "one molecule")):
        values = [ratios[f"default_lmax3_{kind}_time_over_{peer}"] for peer in PEERS]
        assert f"| {label} | {' | '.join(f'{value:.2f}' for value in values)} |" in text


def test_the_long_runs_in_the_readme_are_what_the_results_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    long = {
        (r["molecule"], r["recipe"]): r["metrics"]
        for r in read_results(ROOT / "results" / "rmd17")
        if r["budget"] > 3600
    }
    names = ("default, small steps", "2 x default, small steps")
    for molecule in ("ethanol", "aspirin"):
        one, two = (long[molecule, name] for name in names)
        published = [rmd17(950, peer, molecule) for peer in ("MACE", "NequIP")]
        cells = [molecule]
        for number, kind in ((1, "force_mae_mev_per_a"), (0, "energy_mae_mev")):
            cells += [f"{two[kind]:.2f}", f"{one[kind]:.2f}", *(f"{values[number]:g}" for values in published)]
        assert f"| {' | '.join(cells)} |" in text


def test_the_errors_in_the_readme_are_what_the_results_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = read_results(ROOT / "results" / "rmd17")
    forces = {
        (result["molecule"], result["train"]): result["metrics"]["force_mae_mev_per_a"]
        for result in results
        if result["recipe"] == "default" and result.get("members", 1) == 1
    }
    for molecule in RMD17_MOLECULES:
        cells = [molecule]
        for train in (50, 950):
            published = [rmd17(train, peer, molecule) for peer in ("MACE", "NequIP")]
            cells += [f"{forces[molecule, train]:.1f}", *(f"{values[1]:g}" for values in published)]
        assert f"| {' | '.join(cells)} |" in text


def test_the_leaderboard_in_the_readme_is_what_the_results_say():
    chosen = {
        (r["recipe"], machine, r["molecule"]): r
        for folder, machine in LEADERBOARDS.items()
        for r in read_results(ROOT / "results" / folder)
        if (r["protocol"], r["budget"]) == ("sound", 600.0)
    }
    for folder in LEADERBOARDS:
        assert len({r["machine"]["processor"] for r in read_results(ROOT / "results" / folder)}) == 1
    ethanol = [key for key in chosen if key[2] == "ethanol"]
    rows = []
    for recipe, machine, _ in sorted(ethanol, key=lambda key: chosen[key]["metrics"]["force_mae_mev_per_a"]):
        r = chosen[recipe, machine, "ethanol"]
        cells = [f"`{recipe}`", machine, f"{r['parameters'] / 1e6:.2f}", *_passes_and_errors(r)]
        cells += _passes_and_errors(chosen.get((recipe, machine, "aspirin")))
        rows.append(f"| {' | '.join(cells)} |")
    assert "\n".join(rows) in (ROOT / "README.md").read_text(encoding="utf-8")


def _passes_and_errors(result: dict | None) -> list[str]:
    if result is None:
        return ["", "", ""]
    metrics = result["metrics"]
    return [passes([result]), f"{metrics['energy_mae_mev']:.1f}", f"{metrics['force_mae_mev_per_a']:.1f}"]


def test_the_ablation_in_the_readme_is_what_the_results_say():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = read_results(ROOT / "results" / "ablation")
    timed, counted = ([r for r in results if (r["budget"] is None) == is_counted] for is_counted in (False, True))
    assert len(timed) == len(counted) == 36
    assert _ablation_rows(timed, with_energies=False) in text
    assert _ablation_rows(counted, with_energies=True) in text


def _ablation_rows(results: list[dict], with_energies: bool) -> str:
    """What the README shows of an ablation: errors of forces, their cosines and errors of energies by tier."""
    tiers = {
        "vanilla Clifford": (VANILLA,),
        "STF at the output only": (OUTPUT_ONLY,),
        "scaffold, ten variants": SCAFFOLD,
    }
    rows = []
    for tier, variants in tiers.items():
        cosines = [paper_value("ablation", variant, "cosine").value for variant in variants]
        cells = [tier, _range(cosines, 3)]
        for molecule in ("ethanol", "aspirin"):
            mine = [[r["metrics"] for r in results if (r["model"], r["molecule"]) == (v, molecule)] for v in variants]
            names = ("force_mae_mev_per_a", "force_cosine", "energy_mae_mev")
            forces, cosines, energies = ([mean(m[name] for m in metrics) for metrics in mine] for name in names)
            cells.append(f"{_range(forces, 1)} ({_range(cosines, 4)})")
            cells += [_range(energies, 0)] if with_energies else []
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _range(values: list[float], digits: int) -> str:
    ends = dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values)))
    return " to ".join(ends)


def test_qm9_in_the_readme_is_what_the_results_say():
    results = [r for r in read_results(ROOT / "results" / "qm9") if r["target"] == "U0" and not r.get("diverged")]
    rows = []
    for r in sorted(results, key=lambda r: r["metrics"]["energy_mae_mev"]):
        paper = paper_value("qm9", r["model"], "U0")
        cells = [
            f"`{r['recipe']}`",
            f"{r['parameters'] / 1e6:.2f}",
            passes([r]),
            f"{r['metrics']['energy_mae_mev']:.1f}",
        ]
        rows.append(f"| {' | '.join([*cells, '' if paper is None else f'{1000 * paper.value:g}'])} |")
    zero = {f"{r['metrics']['baseline_energy_mae_mev']:.0f}" for r in results}
    assert len(zero) == 1
    rows.append(f"| baseline: one energy an element | | | {zero.pop()} | |")
    assert "\n".join(rows) in (ROOT / "README.md").read_text(encoding="utf-8")
