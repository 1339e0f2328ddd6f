import pytest

from cliffordstf.bench.jobs.step_log import WARM_UP, Step, StepRecorder, last_loss, read_steps, step_times, steps_file
from cliffordstf.train.config import load_config
from cliffordstf.train.progress import Progress
from cliffordstf.train.run import Silence, train


def test_every_update_is_written_and_told(options, tmp_path):
    told = []

    class Listener(Silence):
        def step(self, progress: Progress, share: float, loss: float) -> None:
            told.append((progress.step, progress.seconds, loss))

    recorder = StepRecorder(Listener())
    train(load_config(None, [*options, "epochs=2"]), tmp_path / "run", recorder)
    steps = read_steps(tmp_path / "run")
    assert [(step.number, step.seconds, step.loss) for step in steps] == told
    assert [step.sitting for step in steps] == list(range(1, 9))
    assert recorder.structures_a_step == 4
    assert recorder.parameters > 0


def test_repeated_updates_replace_those_of_a_killed_process(tmp_path):
    steps_file(tmp_path).write_text("1,1,1.0,9.0\n2,2,2.0,8.0\n2,1,2.5,7.0\n3,2,3.5,", encoding="utf-8")
    assert read_steps(tmp_path) == [Step(1, 1, 1.0, 9.0), Step(2, 1, 2.5, 7.0)]
    assert read_steps(tmp_path / "none") == []


def test_the_first_updates_of_a_sitting_are_not_timed():
    first = [Step(n, n, 1.0 * n, 1.0) for n in range(1, WARM_UP + 3)]
    later = [Step(len(first) + n, n, 100.0 + 2.0 * n, 3.0) for n in range(1, WARM_UP + 2)]
    times = step_times([*first, *later])
    assert times is not None
    assert times.seconds == (1.0, 1.0, 2.0)
    assert step_times(first[:WARM_UP]) is None
    assert last_loss([*first, *later], 2 * len(later)) == pytest.approx((11 * 3 + 11 * 1) / 22)
    assert last_loss([], 5) is None
