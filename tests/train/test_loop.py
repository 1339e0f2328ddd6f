"""What counts as the best state of a run."""

import pytest

from cliffordstf.train.config import load_config
from cliffordstf.train.loop import Trainer
from cliffordstf.train.progress import Hooks, Progress
from cliffordstf.train.setup import prepare

ROWS = [
    {"step": 1, "valid_energy_mae_mev": 10.0, "valid_energy_mae_mev_per_atom": 2.0},
    {"step": 2, "valid_energy_mae_mev": 20.0, "valid_energy_mae_mev_per_atom": 1.0},
]
"""Of energies alone: the first is better by structures, the second by atoms."""


@pytest.fixture
def make(options, tmp_path):
    def trainer(*more: str) -> Trainer:
        config = load_config(None, [*options, *more])
        setup = prepare(config)
        hooks = Hooks(step=lambda *_: None, validated=lambda _: None, best=lambda: None)
        data = (setup.train, setup.valid, setup.plan)
        return Trainer(setup.potential, *data, config, setup.baseline, tmp_path / "last.ckpt", hooks)

    return trainer


@pytest.mark.parametrize(("per", "scores"), [("structure", [10.0, 20.0]), ("atom", [2.0, 1.0])])
def test_energies_are_judged_as_the_loss_counts_them(make, per, scores):
    trainer = make(f"loss.energy_per={per}")
    assert [trainer._score(row) for row in ROWS] == scores


def test_forces_come_first_and_what_is_no_number_is_never_better(make):
    trainer = make()
    assert trainer._score({**ROWS[0], "valid_force_mae_mev_per_a": 3.0}) == 3.0
    assert trainer._score({**ROWS[0], "valid_force_mae_mev_per_a": float("nan")}) == float("inf")


@pytest.mark.parametrize(("stored", "best"), [(1.0, 10.0), (10.0, 10.0)])
def test_a_run_that_was_judged_by_another_error_is_judged_again(make, stored, best):
    before = make("loss.energy_per=structure")
    before.progress = Progress(history=ROWS, best=stored, step=2)
    before.schedule.best = stored
    before._save()
    after = make("loss.energy_per=structure")
    after.resume()
    assert (after.progress.best, after.schedule.best) == (best, best)


def test_forces_that_are_not_learned_do_not_judge(make):
    """A force head that nothing teaches says noise; the best energies must not be lost to it."""
    trainer = make("loss.forces.weight=0", "loss.energy_per=structure")
    assert trainer._score({**ROWS[0], "valid_force_mae_mev_per_a": 3.0}) == 10.0
    assert trainer._score({"step": 1, "valid_force_mae_mev_per_a": 3.0}) == 3.0
