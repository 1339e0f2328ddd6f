"""The training loop."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from cliffordstf.data.baseline import Baseline
from cliffordstf.data.dataset import BatchPlan, Dataset, shuffled
from cliffordstf.data.shards.stored import has_label
from cliffordstf.errors import ConfigError, readable
from cliffordstf.model.potential import Potential
from cliffordstf.train import parallel
from cliffordstf.train.averaging import WeightAverage
from cliffordstf.train.checkpoint import check_model, load_checkpoint, model_options, save_checkpoint
from cliffordstf.train.choices import most_epochs, peak_learning_rate, validation_interval
from cliffordstf.train.config import TrainConfig
from cliffordstf.train.data_digests import check_data
from cliffordstf.train.evaluate import evaluate
from cliffordstf.train.loss import combine, loss_sums
from cliffordstf.train.metrics import compute_metrics
from cliffordstf.train.optimizers import Fading, Schedule, make_optimizer
from cliffordstf.train.progress import DivergedError, Hooks, Progress

VALIDATED = (
    "energy_mae_mev",
    "energy_rmse_mev",
    "energy_mae_mev_per_atom",
    "force_mae_mev_per_a",
    "force_rmse_mev_per_a",
    "force_cosine",
    "stress_mae_mev_per_a3",
)
"""Measures of every validation."""


class Trainer:
    """Trains a potential; `run` goes from wherever the progress is to the end.

    Args:
        potential: With its reference energies and scale set.
        train, valid: Data; without validation data the last weights are the best.
        plan: How to batch.
        config: The run's config.
        baseline: Of the training set, for the validation metrics.
        checkpoint: File to write checkpoints to.
        hooks: What to tell the outside.
    """

    def __init__(
        self,
        potential: Potential,
        train: Dataset,
        valid: Dataset,
        plan: BatchPlan,
        config: TrainConfig,
        baseline: Baseline,
        checkpoint: Path,
        hooks: Hooks,
    ) -> None:
        self.potential, self.train, self.valid = potential, train, valid
        self.plan, self.config, self.baseline, self.checkpoint, self.hooks = plan, config, baseline, checkpoint, hooks
        self._batches = -(-len(train) // plan.size)
        self.epochs = most_epochs(config.epochs, len(train))
        steps = None if self.epochs is None else self.epochs * self._batches
        rate = peak_learning_rate(config.optimizer.learning_rate, len(train), steps)
        self.optimizer = make_optimizer(config.optimizer, rate, potential.parameters())
        self.fading = Fading(config.optimizer, rate, config.schedule, len(train), int(train.atoms.sum()))
        self.schedule = Schedule(config.schedule, rate)
        self.average = WeightAverage(potential, config.average) if config.average else None
        self.progress = Progress()
        self.data_digests: dict[str, str] | None = None
        """Recorded in checkpoints, see `data_digests.py`."""
        self._weights = [parameter for parameter in potential.parameters() if parameter.requires_grad]
        self.wants_stress = config.loss.stress.is_used and has_label(train.frames, "stress")
        self.wants_forces = config.loss.forces.is_used and has_label(train.frames, "forces")
        self._stop_requested, self._stop_agreed = False, 0.0
        self._is_whole = True  # not between an update and its being counted
        if len(valid) == 0 and (config.patience is not None or config.schedule.kind == "plateau"):
            raise ConfigError("patience and the plateau schedule need validation data; set data.valid.")

    def resume(self, accept_changed_data: bool = False) -> None:
        """Take up the last checkpoint.

        Args:
            accept_changed_data: Do not compare `data_digests` with those of the checkpoint.

        Raises:
            ModelFileError: It is missing or damaged.
            ConfigError: It is of a model that the config no longer makes, or of other data.
        """
        with readable(self.checkpoint, "checkpoint"):
            state = load_checkpoint(self.checkpoint, self.potential, self.optimizer, self.average)
            check_model(self.checkpoint, self.potential, state)
            if not accept_changed_data:
                check_data(self.checkpoint, state.get("data"), self.data_digests)
            self.progress = Progress(**state["progress"])
            self.schedule.restore(state["schedule"])
            self._judge_again()

    def _judge_again(self) -> None:
        """Take the best score from the history if it is none of these: an older version judged by another error."""
        scores = [self._score(row) for row in self.progress.history]
        if scores and self.progress.best not in scores:
            self.progress.best = self.schedule.best = min(scores)

    def run(self) -> bool:
        """Train to the end; False if a signal asked to stop before, with a checkpoint written."""
        self.potential.train()  # a model that was loaded, to be trained further, comes in evaluation mode
        try:
            with self._stop_on_signals():
                while not self._finished():
                    if not self._epoch():
                        return False
            return True
        except parallel.LostProcessError:
            if self._is_whole:
                self._save()
            raise
        finally:
            self.potential.release()

    def share_done(self) -> float:
        """Share of the run that is done, by time, updates or epochs, whichever is furthest."""
        shares = []
        if self.config.budget is not None:
            shares.append(self.progress.seconds / self.config.budget)
        if self.config.steps is not None:
            shares.append(self.progress.step / self.config.steps)
        if self.epochs is not None:
            done = self.progress.epoch + min(1.0, self.progress.batch / self._batches)
            shares.append(done / self.epochs)
        return min(1.0, max(shares))

    def passes(self) -> float:
        """Passes over the training set so far, the last one counted as far as it got."""
        batches = len(self.plan.split(self.train, shuffled(len(self.train), self.config.seed, 0)))
        return self.progress.step / batches

    def _share_of_a_step(self) -> float:
        """How much of the run a step is, on average."""
        shares, progress = [], self.progress
        if self.config.budget is not None:
            shares.append(progress.seconds / max(1, progress.step) / self.config.budget)
        if self.config.steps is not None:
            shares.append(1 / self.config.steps)
        if self.epochs is not None:
            shares.append(1 / (self.epochs * self._batches))
        return max(shares)

    def _finished(self) -> bool:
        """Whether the end is reached; never within a pass, so that its validation is not left out after a restart."""
        progress, patience = self.progress, self.config.patience
        if progress.batch > 0:
            return False
        return (
            self._used_up()
            or (self.epochs is not None and progress.epoch >= self.epochs)
            or (patience is not None and progress.waited >= patience)
        )

    def _used_up(self) -> bool:
        """Whether time or updates are used up, which also ends a pass."""
        progress, config = self.progress, self.config
        out_of_time = any(
            limit is not None and progress.seconds >= limit for limit in (config.budget, config.cut_after)
        )
        return out_of_time or (config.steps is not None and progress.step >= config.steps)

    def _epoch(self) -> bool:
        """One pass over the data, from the batch where the progress is; False if stopped by a signal."""
        progress = self.progress
        order = shuffled(len(self.train), self.config.seed, progress.epoch)
        groups = self.plan.split(self.train, order)
        self._batches = len(groups)
        last_save = time.perf_counter()
        for indices in groups[progress.batch :]:
            if self._used_up():
                break
            self._timed_step(indices)
            if self.config.validate_steps and progress.step % self.config.validate_steps == 0:
                self._validate()
            if self._must_stop():
                self._save()
                return False
            if time.perf_counter() - last_save > 60 * self.config.checkpoint_minutes:
                self._save()
                last_save = time.perf_counter()
        progress.epoch += 1
        progress.batch = 0
        if (
            progress.epoch % validation_interval(self.config.validate_every, len(groups)) == 0 or self._finished()
        ) and self._has_moved():
            self._validate()
        self._save()
        return True

    def _must_stop(self) -> bool:
        """Whether a signal asked this process to stop; of several processes, whether all know of it."""
        return bool(self._stop_agreed) if parallel.world() > 1 else self._stop_requested

    def _has_moved(self) -> bool:
        """Whether there were updates since the last validation."""
        history = self.progress.history
        return not history or history[-1]["step"] != self.progress.step

    def _timed_step(self, indices: list[int]) -> None:
        started = time.perf_counter()
        loss = self.update(indices)
        elapsed = time.perf_counter() - started
        # Time is that of the main process; a signal to any of them stops all.
        told = [elapsed * parallel.is_main(), float(self._stop_requested)]
        elapsed, self._stop_agreed = parallel.sum_of_numbers(told, self.potential.species_of_number.device)
        progress = self.progress
        progress.seconds += elapsed
        progress.batch += 1
        progress.step += 1
        progress.loss_sum += loss
        progress.loss_count += 1
        self._is_whole = True
        self.hooks.step(progress, self.share_done(), loss)

    def update(self, indices: list[int]) -> float:
        """One update of the weights by a batch of the training set; its loss."""
        self.progress.learning_rate = self.schedule.rate(self.progress.step, self.share_done())
        for group in self.optimizer.param_groups:
            group["lr"] = self.progress.learning_rate
        self.fading.apply(self.optimizer, self._share_of_a_step())
        with self._randomness_of_the_step():
            loss = self.gradient(indices)
        self._is_whole = False
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return loss

    @contextmanager
    def _randomness_of_the_step(self) -> Iterator[None]:
        """Dropout and the like: of the seed, the step and the process, so that a restart does not change them."""
        device = self.potential.species_of_number.device
        seed = ((self.config.seed * parallel.world() + parallel.rank()) * 2**32 + self.progress.step) % 2**63
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 25 times as long
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield

    def gradient(self, indices: list[int]) -> float:
        """The loss of a batch and its clipped gradient, summed over processes: each takes a part with as many edges."""
        self.optimizer.zero_grad(set_to_none=True)
        mine = parallel.my_part(indices, self.train.edges[indices].tolist())
        device = self.potential.species_of_number.device
        zeros = torch.zeros(3, dtype=torch.float64, device=device)
        sums = None
        if mine:
            labels = self.train.batch(mine).to(device)
            prediction = self.potential(labels.batch, forces=self.wants_forces, stress=self.wants_stress, train=True)
            sums = loss_sums(self.config.loss, prediction, labels, self.potential.reference.scale)
        counts = parallel.sum_over_processes(sums.counts if sums is not None else zeros)
        loss = zeros.sum()
        if sums is not None:
            loss = combine(self.config.loss, sums, counts, self.share_done())
            loss.backward(inputs=self._weights)
        parallel.sum_gradients(self.potential)
        total = float(parallel.sum_over_processes(loss.detach()))
        limit = float("inf") if self.config.optimizer.clip is None else self.config.optimizer.clip
        size = float(torch.nn.utils.clip_grad_norm_(self._weights, limit))
        if not np.isfinite(total) or not np.isfinite(size):
            what = f"the loss is {total:.3g} and its gradient {size:.3g} at step {self.progress.step}"
            raise DivergedError(what, self.checkpoint)
        return total

    def _validate(self) -> None:
        progress = self.progress
        row: dict[str, Any] = {
            # Within a pass, the part of it that is done counts.
            "epoch": progress.epoch + round(progress.batch / self._batches, 3) if progress.batch else progress.epoch,
            "step": progress.step,
            "seconds": progress.seconds,
            "learning_rate": progress.learning_rate,
            "train_loss": progress.loss_sum / max(1, progress.loss_count),
        }
        progress.loss_sum, progress.loss_count = 0.0, 0
        with self.average.applied() if self.average is not None else _nothing():
            row |= parallel.share(self._validation_row() if parallel.is_main() else {})
            score = self._score(row)
            if score < progress.best or not progress.history:
                progress.best, progress.best_epoch, progress.waited = score, progress.epoch, 0
                self.hooks.best()
            else:
                progress.waited += 1
        self.schedule.observe(score)
        progress.history.append(row)
        self.hooks.validated(row)

    def _validation_row(self) -> dict[str, Any]:
        if len(self.valid) == 0:
            return {}
        plan = BatchPlan(4 * self.plan.size, self.plan.max_atoms, self.plan.max_edges)
        metrics = compute_metrics(evaluate(self.potential, self.valid, plan, self.baseline))
        return {f"valid_{name}": metrics[name] for name in VALIDATED}

    def _score(self, row: dict[str, Any]) -> float:
        """What is to be small: the force error, or where no forces are learned the energy error.

        Without validation data every later state counts as better; an error that is not a number is never better.
        """
        if len(self.valid) == 0:
            return -float(row["step"])
        per = "" if self.config.loss.energy_per == "structure" else "_per_atom"
        names = ("valid_force_mae_mev_per_a", f"valid_energy_mae_mev{per}")
        for name in names if self.wants_forces else reversed(names):
            if row.get(name) is not None:
                return float(row[name]) if np.isfinite(row[name]) else float("inf")
        return float("inf")

    def _save(self) -> None:
        if parallel.is_main():
            model = model_options(self.potential)
            state = {"progress": self.progress.__dict__, "schedule": self.schedule.state(), "model": model}
            state["data"] = self.data_digests
            save_checkpoint(self.checkpoint, self.potential, self.optimizer, self.average, state)

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask for a checkpoint and an end after the current step; a second one ends at once."""

        def ask(number: int, _frame: FrameType | None) -> None:
            self._stop_requested = True
            signal.signal(number, previous[number])

        previous = {int(number): signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
