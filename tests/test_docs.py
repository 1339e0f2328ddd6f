"""Numbers, links, commands and test names of the documentation are right."""

import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path
from statistics import mean

import pytest
from typer.main import get_command

from cliffordstf.bench.jobs.sweep import read_results
from cliffordstf.bench.literature.paper_values import paper_value
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, rmd17
from cliffordstf.bench.speed.speed_tables import PEERS, speed_tables
from cliffordstf.bench.tables.ablation_claims import OUTPUT_ONLY, SCAFFOLD, VANILLA
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.bench.tables.formatting import passes
from cliffordstf.bench.tables.paper_tables import paper_tables
from cliffordstf.cli.main import app
from tests.attack.__main__ import table as attack_table

ROOT = Path(__file__).parents[1]

LEADERBOARDS = {"leaderboard": "A", "leaderboard-xeon": "X"}
"""Folders of results, and what docs/results.md calls their machines."""

RESULTS = "docs/results.md"
SPEED = "docs/speed.md"
README = "README.md"


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


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


def _commands(text: str) -> list[list[str]]:
    """Words of every `cliffordstf …` command in the code blocks of a page."""
    code = "\n".join(re.findall(r"^```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^cliffordstf .+$", code, flags=re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("name", [README, "docs/use.md", "docs/lammps.md", "docs/scale.md", SPEED])
def test_commands_and_their_flags_exist(name):
    commands = _commands(page(name))
    assert commands
    for words in commands:
        command, rest = get_command(app), iter(words)
        while hasattr(command, "commands"):  # a group
            verb = next(rest)
            assert verb in command.commands, words
            command = command.commands[verb]
        flags = {flag for parameter in command.params for flag in parameter.opts}
        unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in flags]
        assert not unknown, words


def _every_flag(command) -> set[str]:
    below = [_every_flag(child) for child in getattr(command, "commands", {}).values()]
    return {flag for parameter in command.params for flag in parameter.opts}.union(*below)


@pytest.mark.parametrize("name", [README, "docs/use.md", "docs/bench.md", "docs/scale.md", RESULTS, SPEED])
def test_flags_in_the_text_exist(name):
    of_others = {"--nproc-per-node", "--time", "--cpus-per-task", "--check", "--ignore-missing"}
    of_others |= {"--nnodes", "--rdzv-backend", "--rdzv-endpoint"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", page(name))) - of_others
    assert not named - _every_flag(get_command(app))


def test_the_core_needs_no_equivariance_library():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[ ]", requirement)[0] for requirement in project["dependencies"]}
    assert not names & {"e3nn", "torch-geometric", "torch-scatter", "torch-cluster"}


def _anchors(text: str) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", [README, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_lead_to_files_and_headings(document):
    path = ROOT / document
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page(document)):
        target = path.parent / link if link else path
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target.read_text(encoding="utf-8")), f"{link}#{anchor}"


def test_every_page_is_in_the_index():
    index = page("docs/index.md")
    for path in (ROOT / "docs").iterdir():
        if path.suffix == ".md" and path.name != "index.md":
            assert f"]({path.name})" in index, path.name


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


@pytest.mark.parametrize(
    "study", sorted({folder.name for folder in (ROOT / "results").iterdir()} - {"attack", "speed"})
)
def test_tables_are_what_the_results_say(study):
    results = read_results(ROOT / "results" / study)
    assert results
    assert all(result["commit"] and "+" not in result["commit"] for result in results)
    expected = "\n".join(table.markdown() for table in all_tables(results))
    assert (ROOT / "docs" / f"{study}.md").read_text(encoding="utf-8") == expected


def test_the_tables_of_attacks_are_what_the_run_found():
    found = json.loads((ROOT / "results" / "attack" / "attack.json").read_text(encoding="utf-8"))
    shown = page("docs/trust.md")
    rows = [line for line in attack_table(found).splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert [row for row in rows if row not in shown] == []


@pytest.mark.parametrize("name", [README, SPEED])
def test_ratios_of_times_are_those_of_the_results(name):
    ratios = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))["ratios"]
    for kind, label in (("inference", "inference"), ("training", "training step"), ("latency", "one molecule")):
        values = [ratios[f"default_lmax3_{kind}_time_over_{peer}"] for peer in PEERS]
        assert f"| {label} | {' | '.join(f'{value:.2f}' for value in values)} |" in page(name)


@pytest.mark.parametrize("name", [README, SPEED])
def test_times_of_boxes_are_those_of_the_results(name):
    boxes = json.loads((ROOT / "results" / "speed" / "speed.json").read_text(encoding="utf-8"))["boxes"]
    times = {(box["name"], box["atoms"]): f"{box['microseconds_per_atom']:.0f}" for box in boxes}
    first, second, third = (times["default", atoms] for atoms in (864, 10_976, 97_556))
    text = page(name)
    assert f"{first}, {second} and {third} µs per atom at 10^3, 10^4 and 10^5 atoms" in text
    assert re.search(rf"\(MACE L=1 at 10\^3(?: atoms)?: {times['mace-l1', 864]}\)", text)


def _long_runs() -> dict[tuple[str, str], dict]:
    return {
        (r["molecule"], r["recipe"]): r["metrics"]
        for r in read_results(ROOT / "results" / "rmd17")
        if r["budget"] > 3600
    }


LONG = ("default, small steps", "2 x default, small steps")
"""Recipes of the long runs: a single model, an ensemble of two."""


def test_the_long_runs_are_those_of_the_results():
    text, long = page(RESULTS), _long_runs()
    for molecule in ("ethanol", "aspirin"):
        one, two = (long[molecule, name] for name in LONG)
        published = [rmd17(950, peer, molecule) for peer in ("MACE", "NequIP")]
        cells = [molecule]
        for number, kind in ((1, "force_mae_mev_per_a"), (0, "energy_mae_mev")):
            cells += [f"{two[kind]:.2f}", f"{one[kind]:.2f}", *(f"{values[number]:g}" for values in published)]
        assert f"| {' | '.join(cells)} |" in text


def test_the_long_runs_in_the_readme_are_those_of_the_results():
    long = _long_runs()
    ethanol, aspirin = (
        [f"{long[molecule, name]['force_mae_mev_per_a']:.2f}" for name in LONG] for molecule in ("ethanol", "aspirin")
    )
    singles = f"single models reach {ethanol[0]} (ethanol) and {aspirin[0]} meV/Å (aspirin)"
    assert f"{singles}, ensembles of two {ethanol[1]} and {aspirin[1]}." in " ".join(page(README).split())


def _force_errors() -> dict[tuple[str, int], float]:
    """Force MAE in meV/Å of single default models by molecule and number of training frames."""
    return {
        (result["molecule"], result["train"]): result["metrics"]["force_mae_mev_per_a"]
        for result in read_results(ROOT / "results" / "rmd17")
        if result["recipe"] == "default" and result.get("members", 1) == 1
    }


@pytest.mark.parametrize("name", [README, RESULTS])
def test_force_errors_are_those_of_the_results(name):
    text, forces = page(name), _force_errors()
    for molecule in RMD17_MOLECULES:
        cells = [molecule]
        for train in (50, 950):
            published = [rmd17(train, peer, molecule) for peer in ("MACE", "NequIP")]
            cells += [f"{forces[molecule, train]:.1f}", *(f"{values[1]:g}" for values in published)]
        assert f"| {' | '.join(cells)} |" in text


@pytest.mark.parametrize("name", [README, RESULTS])
def test_the_baseline_is_that_of_the_results(name):
    baseline = {
        result["molecule"]: result["metrics"]["baseline_force_mae_mev_per_a"]
        for result in read_results(ROOT / "results" / "rmd17")
    }
    low, high = min(baseline, key=baseline.get), max(baseline, key=baseline.get)
    text = f"Predicting zero forces gives {baseline[low]:.0f} ({low}) to {baseline[high]:.0f} ({high})."
    assert text in page(name)


def test_the_comparison_with_mace_is_that_of_the_results():
    forces = _force_errors()
    ratios = {
        train: [forces[molecule, train] / rmd17(train, "MACE", molecule)[1] for molecule in RMD17_MOLECULES]
        for train in (50, 950)
    }
    assert sum(ratio < 1 for ratio in ratios[50]) == 9
    assert "smaller force errors than the published MACE on nine of ten molecules" in page(RESULTS)
    text = f"its errors are {min(ratios[950]):.1f} to {max(ratios[950]):.1f} times those of the published MACE"
    assert text in page(RESULTS)


def test_the_figure_shows_the_numbers_of_the_tables(tmp_path):
    path = ROOT / "docs" / "figures.py"
    specification = importlib.util.spec_from_file_location("figures", path)
    figures = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(figures)
    forces = _force_errors()
    for model, errors in figures.force_errors().items():
        for molecule in RMD17_MOLECULES:
            expected = forces[molecule, 50] if model == figures.OURS else rmd17(50, model, molecule)[1]
            assert errors[molecule] == expected
    measured = page("docs/speed-measured.md")
    times = figures.inference_times()
    for name, label in figures.MODELS.items():
        assert re.search(rf"^\| {re.escape(name)} \| [\d,]+ \| {times[label]:.0f} \|", measured, flags=re.MULTILINE)
    figures.draw(tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 10_000


def test_the_leaderboard_is_that_of_the_results():
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
    assert "\n".join(rows) in page(RESULTS)


def _passes_and_errors(result: dict | None) -> list[str]:
    if result is None:
        return ["", "", ""]
    metrics = result["metrics"]
    return [passes([result]), f"{metrics['energy_mae_mev']:.1f}", f"{metrics['force_mae_mev_per_a']:.1f}"]


def test_the_ablation_is_that_of_the_results():
    text = page(RESULTS)
    results = read_results(ROOT / "results" / "ablation")
    timed, counted = ([r for r in results if (r["budget"] is None) == is_counted] for is_counted in (False, True))
    assert len(timed) == len(counted) == 36
    assert _ablation_rows(timed, with_energies=False) in text
    assert _ablation_rows(counted, with_energies=True) in text


def _ablation_rows(results: list[dict], with_energies: bool) -> str:
    """Rows of an ablation: errors of forces, their cosines and errors of energies by tier."""
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


def _claims(length: str, molecule: str, what: str) -> str:
    """Ratio of force errors in the generated table of the ablation's claims, without its range over seeds."""
    (table,) = re.findall(
        rf"\*\*The ablation's claims, {length} each:[^\n]*\n\n(.*?{molecule}.*?)(?:\n\n|\Z)",
        page("docs/ablation.md"),
        flags=re.DOTALL,
    )
    head, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.strip().splitlines()]
    (row,) = (row for row in rows if row[0] == what)
    return row[head.index(f"forces, {molecule}")].split(" ")[0]


def test_the_claims_of_the_ablation_are_those_of_the_results():
    text = page(RESULTS)
    updates, time = ("500 steps", "300 steps"), ("3 min", "3 min")

    def pair(lengths: tuple[str, str], what: str) -> tuple[str, str]:
        ethanol, aspirin = (
            _claims(length, molecule, what) for length, molecule in zip(lengths, ("ethanol", "aspirin"), strict=True)
        )
        return ethanol, aspirin

    scaffold = "the scaffold, beside vanilla Clifford"
    ethanol, aspirin = pair(updates, scaffold)
    assert f"are {ethanol} (ethanol; 1.04 and 1.08 by seed) and {aspirin} times (aspirin)" in text
    assert f"| {' and '.join(pair(time, scaffold))} times; vanilla completes the most epochs. |" in text
    for lengths in (updates, time):
        stf2, none = (pair(lengths, f"Hodge duals in the forces ({what})") for what in ("stf2", "no STF"))
        assert f"{' and '.join(stf2)} times beside STF, {' and '.join(none)} without it" in text
        crossed = [value for what in ("full", "stf2") for value in pair(lengths, f"cross-track coupling ({what})")]
        assert f"{min(crossed)} to {max(crossed)} times" in text


SCALED = {
    "`default`": ("default/1m", "default/10m"),
    "`paper/full`": ("paper/full", "paper/full-10m"),
    "`paper/clifford`": ("paper/clifford", "paper/clifford-10m"),
    "MACE L=2": ("mace-l2", "mace-l2-10m"),
    "EquiformerV2": ("equiformer-l2", "equiformer-l2-10m"),
}
"""Label of a family in docs/results.md -> its two models."""


@pytest.mark.parametrize("family", SCALED)
def test_the_scaling_table_is_that_of_the_results(family):
    generated = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in page("docs/scaling.md").splitlines()
        if row.startswith("| ")
    ]
    rows = [[row for row in generated if row[0].split(" ")[0] == model] for model in SCALED[family]]
    (_, small), (cost, large) = rows
    with_optimiser, without = (f"{float(cost[column].split(' ')[0]):g}" for column in (6, 8))
    forces = [f"{float(row[3].split(' ')[2]):.0f}" for row in (large, small)]
    text = re.sub(r" times(?= \|)", "", page(RESULTS))
    found = re.search(rf"^\| {re.escape(family)} \| (\S+) \| (\S+) \| (.+) \| (\d+) \|$", text, flags=re.MULTILINE)
    assert found is not None
    assert float(found[1]) == float(without)
    assert round(float(found[2])) == round(float(with_optimiser)) or found[2] == with_optimiser
    assert found[3] == " and ".join(forces)
    assert found[4] == large[1] == small[1]


def test_qm9_is_that_of_the_results():
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
    assert "\n".join(rows) in page(RESULTS)
