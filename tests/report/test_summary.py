from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from cliffordstf.errors import CliffordSTFError
from cliffordstf.report import ReportInputs, write_summary_png
from tests.report import samples


def ink(path: Path) -> list[float]:
    """Share of pixels that are not white in each quarter of the picture, below the title."""
    picture = imread(path)[60:, :, :3]
    rows, columns = picture.shape[0] // 2, picture.shape[1] // 2
    quarters = [picture[:rows, :columns], picture[:rows, columns:], picture[rows:, :columns], picture[rows:, columns:]]
    return [float((quarter.min(axis=-1) < 0.95).mean()) for quarter in quarters]


def test_four_panels(tmp_path: Path) -> None:
    inputs = samples.inputs([samples.section("test set", samples.molecule_frames(30))])
    path = write_summary_png(inputs, tmp_path / "deep" / "summary.png")
    assert path == tmp_path / "deep" / "summary.png"
    assert min(ink(path)) > 0.015


def test_panels_without_data_stay_empty(tmp_path: Path) -> None:
    energies = samples.section("test set", samples.without_forces(samples.molecule_frames(30)))
    path = write_summary_png(samples.inputs([energies], history=[], title="a $ title_ in 漢字"), tmp_path / "s.png")
    learning, forces, energy, angles = ink(path)
    assert energy > 0.015
    assert max(learning, forces, angles) < 0.015
    assert max(ink(write_summary_png(ReportInputs("", [], [], {}, {}, [], [], []), tmp_path / "e.png"))) < 0.015


def test_one_wild_prediction_does_not_hide_the_others(tmp_path: Path) -> None:
    section = samples.section("test set", samples.molecule_frames(30))
    calm = ink(write_summary_png(samples.inputs([section]), tmp_path / "calm.png"))
    forces = section.evaluation.forces.copy()
    forces[0, 0] = 1e6
    wild = replace(section, evaluation=replace(section.evaluation, forces=forces))
    found = ink(write_summary_png(samples.inputs([wild]), tmp_path / "wild.png"))
    assert np.isclose(found[1], calm[1], rtol=0.4)


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CliffordSTFError, match="cannot write"):
        write_summary_png(samples.inputs([]), tmp_path)
