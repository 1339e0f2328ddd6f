import re
from dataclasses import replace

import numpy as np
import pytest
from ase.data import chemical_symbols

from cliffordstf.report import ReportSection
from cliffordstf.report.headline import baseline_measures, cards
from cliffordstf.report.measures import config_type_tables, group_table, measures_tables
from cliffordstf.report.notices import data_warnings, measure_warnings
from tests.report import samples


@pytest.fixture(scope="module")
def section() -> ReportSection:
    return samples.section("test set", samples.config_type_frames(6))


def words(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def rows(markup: str) -> list[list[str]]:
    """Cells of every row of all tables, heads first."""
    return [
        [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", markup)
    ]


def measured(section: ReportSection) -> str:
    return measures_tables(section, baseline_measures(section.evaluation))


def test_mae_and_rmse_beside_those_of_the_baseline(section: ReportSection) -> None:
    head, *body = rows(measured(section))
    assert head == ["error of", "unit", "MAE", "RMSE", "baseline MAE", "baseline RMSE"]
    table = {(row[0], row[1]): row[2:] for row in body if len(row) == 6}
    assert list(table) == [
        ("Energy", "meV"),
        ("Energy per atom", "meV/atom"),
        ("Forces", "meV/Å"),
        ("Stress", "meV/Å³"),
        ("Stress", "GPa"),
    ]
    metrics = section.metrics
    for (quantity, unit), ending in {
        ("Stress", "GPa"): "stress_{}_gpa",
        ("Forces", "meV/Å"): "force_{}_mev_per_a",
    }.items():
        keys = [prefix + ending.format(kind) for prefix in ("", "baseline_") for kind in ("mae", "rmse")]
        shown = [float(text.replace(",", "")) for text in table[quantity, unit]]
        assert shown == pytest.approx([metrics[key] for key in keys], rel=6e-3)


def test_the_threshold_of_the_cosine_is_stated_where_it_is_shown(section: ReportSection) -> None:
    used, left_out = section.metrics["force_cosine_atoms"], section.metrics["force_cosine_left_out"]
    assert left_out == 5
    text = f"{used} of {used + left_out} atoms: true |F| ≥ 0.01 eV/Å"
    for markup in (cards(section), measured(section)):
        assert text in words(markup)
    assert "≥ 0.01 eV/Å" in words(config_type_tables(section))


def test_a_table_by_config_type(section: ReportSection) -> None:
    markup = config_type_tables(section)
    head, *body = rows(markup.split("<details>")[0])
    assert [row[0] for row in body] == list(section.metrics["per_config_type"])
    assert "Default" in section.metrics["per_config_type"]
    for name in ("energy MAE (meV/atom)", "force RMSE (meV/Å)", "stress MAE (GPa)", "baseline stress RMSE (GPa)"):
        assert name in head
    isolated = dict(zip(head, next(row for row in body if row[0] == "IsolatedAtom"), strict=True))
    assert (isolated["structures"], isolated["force cosine"], isolated["atoms in cosine"]) == ("5", "–", "0")
    assert 'class="sortable"' in markup
    folded = rows(markup.split("<details>")[1])[0]
    assert "energy MAE (meV)" in folded
    assert "stress MAE (meV/Å³)" in folded


def test_no_table_for_fewer_than_two_config_types(section: ReportSection) -> None:
    metrics = section.metrics
    one = {"slab": metrics["per_config_type"]["Default"]}
    for found in ({}, one):
        assert config_type_tables(replace(section, metrics={**metrics, "per_config_type": found})) == ""


def test_config_types_with_energies_only() -> None:
    frames = samples.without_forces(samples.molecule_frames(4))
    frames = [replace(frame, config_type=str(index % 2)) for index, frame in enumerate(frames)]
    head = rows(config_type_tables(samples.section("test set", frames)))[0]
    assert "energy MAE (meV/atom)" in head
    assert not any("force" in name or "stress" in name or "cosine" in name for name in head)


def test_predictions_that_are_not_finite_show_as_nan_everywhere() -> None:
    found = samples.evaluation(samples.config_type_frames(6))
    found.forces[4] = np.nan
    found.energy[0] = np.inf
    found.stress[8, 1, 1] = np.nan
    section = samples.section_of("test set", found)
    baseline = baseline_measures(found)
    for quantity in ("Energy", "Forces", "Stress"):
        row = next(row for row in rows(measured(section)) if row[0] == quantity)
        assert row[2:4] == ["NaN", "NaN"]
        assert "NaN" not in row[4:]
    assert words(cards(section)).count("NaN") == 5
    assert "predictions that are not finite" in words(cards(section))
    element = {row[0]: row for row in rows(group_table(section, "element"))}
    spoilt = {name for name, row in element.items() if "NaN" in row}
    assert spoilt == {chemical_symbols[found.numbers[4]]}
    ethanol = next(row for row in rows(config_type_tables(section)) if row[0].startswith("ethanol"))
    assert "NaN" in ethanol
    assert "1 predicted energies and the predicted forces of 1 atoms and stresses of 1" in words(
        measure_warnings(section, baseline)
    )


def test_long_lists_of_warnings_are_folded() -> None:
    messages = [f"warning number {index} about <frame {index}>" for index in range(11)]
    shown, folded = data_warnings(messages).split("<details>")
    assert "11 warnings about the data" in shown
    assert [f"number {index} " in shown for index in range(11)] == [True] * 8 + [False] * 3
    assert "3 more" in folded
    assert folded.count("<li>") == 3
    assert "<frame" not in shown + folded
    assert "&lt;frame 10&gt;" in folded


def test_few_warnings_are_all_visible_and_none_need_no_box() -> None:
    assert "1 warning about the data" in data_warnings(["one"])
    assert data_warnings(["one"] * 8).count("<details") == 1
    assert data_warnings([]) == ""
