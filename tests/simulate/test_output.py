"""Trajectories and logs that runs go on with: nothing good is dropped in silence."""

import csv

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import read

from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.output import CsvLog, TrajectoryFile


def frame(step: int) -> Atoms:
    atoms = Atoms("H2", positions=[[0, 0, 0], [0, 0, 1 + 0.01 * step]])
    atoms.calc = SinglePointCalculator(atoms, energy=float(step), forces=np.zeros((2, 3)))
    return atoms


@pytest.fixture(params=[".traj", ".extxyz"])
def path(request, tmp_path):
    found = tmp_path / f"md{request.param}"
    trajectory = TrajectoryFile(found)
    for step in range(20):
        trajectory.add(frame(step), step)
    return found


def steps(path) -> list[int]:
    return [atoms.info["step"] for atoms in read(path, ":")]


@pytest.mark.parametrize("last", [0, 9, 18, 19, 30])
def test_frames_after_a_step_are_dropped(path, last):
    trajectory = TrajectoryFile(path, resume_from=last)
    assert trajectory.last_step == min(last, 19)
    assert steps(path) == list(range(min(last, 19) + 1))
    trajectory.add(frame(last + 1), last + 1)
    assert steps(path)[-1] == last + 1


def test_a_damaged_frame_does_not_cost_the_frames_behind_it(path):
    """Ten of two thousand frames were kept, without a word."""
    content = path.read_bytes()
    places = [index for index in range(len(content)) if content.startswith(b"step", index)]
    damaged = bytearray(content)
    damaged[places[10] : places[10] + 4] = b"\xff\xfe\xfd\xfc"
    path.write_bytes(damaged)
    with pytest.raises(SimulationError, match="damaged"):
        TrajectoryFile(path, resume_from=15)
    assert path.read_bytes() == bytes(damaged)


def test_a_damaged_count_is_no_end(tmp_path):
    path = tmp_path / "md.extxyz"
    trajectory = TrajectoryFile(path)
    for step in range(20):
        trajectory.add(frame(step), step)
    lines = path.read_text().splitlines(keepends=True)
    lines[20] = "2000\n"
    path.write_text("".join(lines))
    with pytest.raises(SimulationError, match="frame 5 is damaged"):
        TrajectoryFile(path, resume_from=15)


@pytest.mark.parametrize("cut", [1, 10, 60, 130])
def test_half_a_frame_at_the_end_is_what_a_killed_run_leaves(tmp_path, cut):
    path = tmp_path / "md.extxyz"
    trajectory = TrajectoryFile(path)
    for step in range(5):
        trajectory.add(frame(step), step)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - cut])
    assert TrajectoryFile(path, resume_from=10).last_step == 3
    assert steps(path) == [0, 1, 2, 3]


def test_rows_of_a_log_stay_when_it_is_opened(tmp_path, monkeypatch):
    with CsvLog(tmp_path / "log.csv") as log:
        for step in range(5):
            log.add(step, *[0.0] * 5)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cliffordstf.simulate.output.write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        CsvLog(tmp_path / "log.csv", resume_from=3)
    with (tmp_path / "log.csv").open() as stream:
        assert len(list(csv.reader(stream))) == 6


def test_a_log_with_a_step_that_is_none_is_left_alone(tmp_path):
    with CsvLog(tmp_path / "log.csv") as log:
        log.add(0, *[0.0] * 5)
    text = (tmp_path / "log.csv").read_text().replace("\n0,", "\nzero,")
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(SimulationError, match="a step 'zero'"):
        CsvLog(tmp_path / "log.csv", resume_from=3)
