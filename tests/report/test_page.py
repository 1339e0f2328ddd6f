import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from cliffordstf.errors import CliffordSTFError
from cliffordstf.report import ReportInputs, write_report
from tests.report import samples

VOID = {"meta", "img", "br", "input", "link", "hr"}
EVIL = "</script><script>document.documentElement.dataset.evil=1</script>\"'&<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Collects what the tests ask of a page, and finds tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.ids: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.crossed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"src", "href", "xlink:href", "srcset", "data", "action"}:
                self.references.append(value or "")
            assert not name.startswith("on"), f"inline handler {name}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(inputs: ReportInputs, folder: Path) -> tuple[str, Page]:
    path = write_report(inputs, folder)
    assert path == folder / "index.html"
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.crossed == []
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    for target in page.references:
        assert target.startswith(("#", "data:image/")), target
    for target in page.references:
        if target.startswith("#"):
            assert target[1:] in page.ids
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    return text, page


def test_full_page_of_real_frames(real_data: Path, tmp_path: Path) -> None:
    test = samples.section("test set", samples.ethanol_frames(real_data, 1000))
    valid = samples.section("validation set", samples.ethanol_frames(real_data, 60), noise=0.05)
    text, page = read(samples.inputs([test, valid]), tmp_path / "new" / "folder")
    assert len(text) < 1_000_000
    # Five learning curves, then six figures for each of two sets.
    assert page.counts["svg"] == 5 + 2 * 6
    assert f"{test.metrics['force_mae_mev_per_a']:.1f}" in page.text
    assert f"{test.metrics['baseline_force_mae_mev_per_a']:.0f}" in page.text
    for words in ("baseline", "Learning curves", "Comparison", "193,472", "energy drift", "meV/Å", "0123abc"):
        assert words in page.text
    assert "preset: default/small" in text
    assert text.count("data-show=") == 2 * 5
    assert "warning" not in re.findall(r'class="(\w+)"', text)


def test_page_says_the_same_every_time(tmp_path: Path) -> None:
    inputs = samples.inputs([samples.section("test set", samples.molecule_frames(8))])
    assert read(inputs, tmp_path / "a")[0] == read(inputs, tmp_path / "b")[0]


def test_stress_and_cell_of_a_crystal(tmp_path: Path) -> None:
    section = samples.section("crystals", samples.crystal_frames(12))
    text, page = read(samples.inputs([section]), tmp_path)
    assert "Stress MAE" in page.text
    assert "Stress components" in page.text
    assert page.counts["svg"] == 5 + 7
    assert text.count('"box":[[[') == 5


def test_energy_only(tmp_path: Path) -> None:
    section = samples.section("energies", samples.without_forces(samples.molecule_frames(9)))
    text, page = read(samples.inputs([section], history=[], comparison=[]), tmp_path)
    assert page.counts["svg"] == 1
    assert "The worst by energy error per atom" in page.text
    assert "Force MAE" not in page.text
    assert "Stress" not in page.text
    assert "Learning curves" not in page.text
    assert '"true":[null,null' in text
    assert "NaN" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_forces_of_some_atoms_and_no_energy(tmp_path: Path) -> None:
    frames = samples.molecule_frames(6)
    frames = [replace(frame, energy=None) for frame in frames]
    assert frames[0].forces is not None
    frames[0].forces[:4] = np.nan
    frames[1] = replace(frames[1], forces=None)
    section = samples.section("partly labelled", frames)
    text, page = read(samples.inputs([section]), tmp_path)
    assert "Force MAE" in page.text
    assert "Energy MAE" not in page.text
    assert text.count("data-show=") == 5


def test_warnings_about_the_data_are_near_the_top_and_linked(tmp_path: Path) -> None:
    messages = [f"{EVIL} number {index}" for index in range(12)]
    inputs = samples.inputs([samples.section("test set", samples.molecule_frames(4))], warnings=messages)
    text, page = read(inputs, tmp_path)
    assert "#warnings" in page.references
    assert "12 warnings about the data" in page.text
    assert all(f"number {index}" in page.text for index in range(12))
    assert text.index('id="warnings"') < text.index('id="comparison"')
    assert "<img src=x" not in text
    calm, page = read(replace(inputs, warnings=[]), tmp_path / "calm")
    assert "#warnings" not in page.references
    assert 'id="warnings"' not in calm


def test_errors_by_config_type_of_each_set(tmp_path: Path) -> None:
    with_labels = samples.section("test set", samples.config_type_frames(4))
    _, page = read(samples.inputs([with_labels, samples.section("valid set", samples.molecule_frames(4))]), tmp_path)
    assert page.text.count("Errors by config type") == 1
    assert "bulk_amorphous_quench_1200K_to_300K_second_batch" in page.text


def test_forces_that_are_all_nearly_zero_still_have_a_section(tmp_path: Path) -> None:
    frames = samples.molecule_frames(4)
    frames = [replace(f, forces=1e-4 * f.forces) for f in frames if f.forces is not None]
    section = samples.section("relaxed structures", frames)
    assert section.metrics["force_cosine"] is None
    _, page = read(samples.inputs([section]), tmp_path)
    assert "Force components, predicted against reference" in page.text
    assert "Force error by the size of the true force" in page.text
    assert "Angle between predicted" not in page.text
    assert "Force cosine" not in page.text


def test_only_the_diagonal_of_the_stress_is_known(tmp_path: Path) -> None:
    found = samples.evaluation(samples.crystal_frames(6))
    found.stress_labels[:, ~np.eye(3, dtype=bool)] = np.nan
    section = samples.section_of("crystals", found)
    _, page = read(samples.inputs([section]), tmp_path)
    assert "Stress components" in page.text
    assert "GPa" in page.text
    assert "NaN" not in page.text
    assert "Not finite" not in page.text


def test_no_labels_at_all(tmp_path: Path) -> None:
    frames = [replace(frame, energy=None) for frame in samples.without_forces(samples.molecule_frames(3))]
    _, page = read(samples.inputs([samples.section("unlabelled", frames)], history=[]), tmp_path)
    assert "No labels to compare with" in page.text
    assert "svg" not in page.counts


def test_nothing_but_a_title(tmp_path: Path) -> None:
    _, page = read(ReportInputs("only a title", [], [], {}, {}, [], [], []), tmp_path)
    assert "only a title" in page.text


def test_one_structure_of_one_atom(tmp_path: Path) -> None:
    frames = samples.crystal_frames(1)
    single = samples.labelled(samples.Atoms("Cu"), "an atom")
    for chosen in ([single], frames):
        _, page = read(samples.inputs([samples.section("one", chosen)]), tmp_path)
        assert "1 structures" in page.text


def test_every_text_is_escaped(tmp_path: Path) -> None:
    frames = samples.molecule_frames(3)
    frames = [replace(frame, structure=replace(frame.structure, name=EVIL)) for frame in frames]
    inputs = samples.inputs(
        [samples.section(EVIL, frames)],
        title=EVIL,
        notes=[EVIL],
        config={EVIL: [EVIL]},
        provenance={EVIL: EVIL, "nested": {EVIL: EVIL}},
        comparison=[{"name": EVIL, EVIL: EVIL, "energy_mae_mev": float("nan"), "parameters": None}],
        extra_figures=[(EVIL, f"<svg>{EVIL}</svg>"), (EVIL, '<svg><script>document.title = "x"</script></svg>')],
    )
    text, page = read(inputs, tmp_path)
    assert "<img src=x" not in text
    assert "dataset.evil=1</script>" not in text
    # The error hook, the viewer's program and its data.
    assert page.counts["script"] == 3
    assert page.counts["img"] == 1
    assert "not well-formed SVG" in page.text
    assert page.text.count("dataset.evil=1") > 10


def test_worse_than_the_zero_row_is_said(tmp_path: Path) -> None:
    section = samples.section("test set", samples.molecule_frames(6), noise=50.0)
    text, page = read(samples.inputs([section]), tmp_path)
    assert "Worse than the baseline" in page.text
    assert 'class="card worse"' in text


def test_predictions_that_are_not_finite_are_said(tmp_path: Path) -> None:
    section = samples.section("test set", samples.molecule_frames(6))
    section.evaluation.forces[3, 1] = np.nan
    section.evaluation.energy[2] = np.inf
    _, page = read(samples.inputs([section]), tmp_path)
    assert "1 predicted energies and the predicted forces of 1 atoms" in page.text


def test_odd_histories(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = [
        {"train_loss": float("nan")},
        {"epoch": 2, "train_loss": 0.0, "valid_force_mae_mev_per_a": 3.0},
        {"epoch": 3, "valid_force_cosine": 1.0, "valid_stress_mae_mev_per_a3": None},  # type: ignore[dict-item]
    ]
    _, page = read(samples.inputs([], history=rows), tmp_path)
    assert "Force error by epoch" in page.text
    assert "Loss by epoch" not in page.text
    assert page.counts["svg"] == 2


def test_many_elements_and_sections_stay_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [
        samples.Frame(
            samples.Structure(rng.integers(1, 95, 60), rng.uniform(0, 14, (60, 3)), 14 * np.eye(3), [True] * 3, f"{k}"),
            energy=float(rng.normal()),
            forces=rng.normal(size=(60, 3)),
        )
        for k in range(300)
    ]
    section = samples.section("random", frames)
    sections = [replace(section, title=f"random {k}") for k in range(3)]
    text, page = read(samples.inputs(sections), tmp_path)
    assert len(text) < 3_000_000
    assert "The 36 elements with the largest error of 94" in page.text


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CliffordSTFError, match=r"cannot write .* check the folder"):
        write_report(samples.inputs([]), blocked / "report")
