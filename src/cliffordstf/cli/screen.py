"""What a training run shows: tables before it, a bar and a few lines during it; the log file holds all of it."""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from ase.data import chemical_symbols
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from cliffordstf.cli.reading import print_sources
from cliffordstf.data.frame import Frame
from cliffordstf.data.shards.stored import label_counts, sizes_of
from cliffordstf.model.config import AnyConfig
from cliffordstf.model.family import FamilyConfig
from cliffordstf.train.progress import Progress as RunProgress
from cliffordstf.train.setup import Setup

LINES = 12
"""Validations shown on the screen, about: more would push the tables away."""
LOG = "train.log"
LOG_WIDTH = 140


class Printer:
    """Prints to the screen and, once there is a run folder, to its log file, from the beginning."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._earlier: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._stream: IO[str] | None = None
        self._log: Console | None = None

    def __call__(self, *values: Any, **options: Any) -> None:
        """Print like rich's console."""
        self.console.print(*values, **options)
        self.log(*values, **options)

    def log(self, *values: Any, **options: Any) -> None:
        """Print to the log file only."""
        if self._stream is None:
            self._earlier.append((values, options))
        if self._log is None or self._stream is None:
            return
        try:
            self._log.print(*values, **{**options, "soft_wrap": True})
            self._stream.flush()
        except OSError as error:  # a full disk is found by the checkpoint; the log must not end a training
            self._log = None
            self.console.print(f"[yellow]warning:[/] {LOG} ends here: {error.strerror or error}", soft_wrap=True)

    def open(self, directory: Path) -> None:
        """Begin, or go on with, the log file of a run."""
        self.close()
        self._stream = (directory / LOG).open("a", encoding="utf-8")
        self._log = Console(file=self._stream, width=LOG_WIDTH, no_color=True, highlight=False)
        earlier, self._earlier = self._earlier, []
        for values, options in earlier:
            self.log(*values, **options)

    def close(self) -> None:
        """Close the log file."""
        if self._stream is not None:
            with contextlib.suppress(OSError):  # what could not be written is given up
                self._stream.close()
        self._stream = self._log = None


class Screen:
    """Watches a run: tables before, a bar on a terminal and some lines during it.

    Args:
        console: Where to print.
        lines: Validations to print a line of, about.
    """

    def __init__(self, console: Console, lines: int = LINES) -> None:
        self.console, self.print = console, Printer(console)
        self.lines = lines
        self.directory: Path | None = None
        self.setup: Setup | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._last: tuple[float, int] | None = None
        self._share, self._next_line = 0.0, 0.0
        self._error = ""

    def prepared(self, setup: Setup, directory: Path) -> None:
        """Print what is trained on what."""
        self.close()
        self.setup, self.directory = setup, directory
        self._share = self._next_line = 0.0
        self._error = ""
        self.print.open(directory)
        self.print.log(time.strftime("%Y-%m-%d %H:%M:%S"))
        print_sources(self.print, setup.splits.sources)
        self.print(_sets_table(setup))
        for line in _label_lines(setup):
            self.print(escape(line), soft_wrap=True, highlight=False)
        for warning in setup.splits.warnings:
            self.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True, highlight=False)
        if setup.parent is not None:
            self.print(f"fine-tuned from {escape(setup.parent)}", soft_wrap=True, highlight=False)
        self.print(_model_line(setup), soft_wrap=True)
        if setup.choices:
            self.print(_choices_table(setup))
        self.print(f"run folder {directory}", soft_wrap=True, highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=1.0, left="")
        self._bar.start()
        self._last = None

    def step(self, progress: RunProgress, share: float, loss: float) -> None:
        """Move the bar."""
        self._share = share
        if self._last is None:
            self._last = (time.perf_counter(), progress.step - 1)
        if self._bar is None:
            return
        left = progress.seconds * (1 - share) / share if share > 0 else 0.0
        text = f"{_time(left)} left, epoch {progress.epoch + 1}, loss {loss:.3g}{self._error}"
        self._bar.update(self._task, completed=share, left=text)

    def validated(self, row: dict[str, float | None]) -> None:
        """Log a line, and print it if the last one was a while ago."""
        now, steps = time.perf_counter(), int(row["step"] or 0)
        since, first = self._last or (now, steps)
        speed = (steps - first) * (self.setup.plan.size if self.setup else 1) / max(now - since, 1e-9)
        self._last = (now, steps)
        line = validation_line(row, speed)
        force = row.get("valid_force_mae_mev_per_a")
        self._error = "" if force is None else f", force MAE {force:.1f} meV/Å"
        if self._share < self._next_line and self._share < 1.0:
            self.print.log(line)
            return
        self._next_line = self._share + 1 / self.lines
        self.print(f"{100 * self._share:3.0f}% {line}", soft_wrap=True)

    def close(self) -> None:
        """Stop the bar."""
        if self._bar is not None:
            self._bar.stop()

    def finish(self) -> None:
        """Stop the bar and close the log file."""
        self.close()
        self.print.close()


def validation_line(row: dict[str, float | None], speed: float) -> str:
    """Errors of a validation in one line; speed in structures per second."""
    parts = [f"epoch {row['epoch']}", f"loss {row['train_loss']:.4g}"]
    for names, text, digits in (
        (("valid_force_mae_mev_per_a", "valid_force_rmse_mev_per_a"), "force MAE {} RMSE {} meV/Å", 2),
        (("valid_energy_mae_mev", "valid_energy_rmse_mev"), "energy MAE {} RMSE {} meV", 2),
    ):
        values = [row.get(name) for name in names]
        if all(value is not None for value in values):
            parts.append(text.format(*(f"{value:.{digits}f}" for value in values)))
    return ", ".join([*parts, f"{speed:.0f} structures/s", _time(row["seconds"] or 0.0)])


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _model_line(setup: Setup) -> str:
    config = cast("AnyConfig", setup.potential.model.config)
    name = config.name if isinstance(config, FamilyConfig) else config.profile
    parameters = sum(parameter.numel() for parameter in setup.potential.parameters())
    references = ", ".join(
        f"{chemical_symbols[number]} {energy:.3f}" for number, energy in sorted(setup.references.energies.items())
    )
    return (
        f"model {name}, {parameters:,} parameters, cutoff {config.cutoff:g} Å, batch size {setup.plan.size}; "
        f"isolated-atom energies ({setup.references.mode}, eV): {references}"
    )


def _sets_table(setup: Setup) -> Table:
    table = Table(title="Structures")
    table.add_column("set")
    for column in ("structures", "atoms", "with energy", "with forces", "with stress"):
        table.add_column(column, justify="right")
    for name, frames in _sets(setup).items():
        cover = label_counts(frames)
        atoms = int(sizes_of(frames).sum())
        counts = [str(cover[label]) for label in ("energy", "forces", "stress")]
        table.add_row(name, str(len(frames)), str(atoms), *counts)
    return table


def _sets(setup: Setup, sampled: bool = False) -> dict[str, Sequence[Frame]]:
    """The sets that are not empty; with the sample of a training set that stays on disk in its place."""
    splits = setup.splits
    sets = {"train": splits.sample if sampled else splits.train, "validation": splits.valid, "test": splits.test}
    return {name: frames for name, frames in sets.items() if frames}


def _label_lines(setup: Setup) -> list[str]:
    """How many structures of each set carry which label."""
    lines = []
    for name, frames in _sets(setup, sampled=True).items():
        counts = Counter(frame.config_type for frame in frames if frame.config_type is not None)
        if len(counts) > 1:
            lines.append(f"{name} by label: " + ", ".join(f"{label} {count}" for label, count in counts.items()))
        weighted = sum(frame.weights != (1.0, 1.0, 1.0) for frame in frames)
        if weighted and name == "train":
            lines.append(f"{weighted} of {len(frames)} training structures have weights of their own in the loss")
    return lines


def _choices_table(setup: Setup) -> Table:
    table = Table(title="Chosen automatically")
    for column in ("option", "value", "why"):
        table.add_column(column, overflow="fold")
    for choice in setup.choices:
        value = f"{choice.value:.4g}" if isinstance(choice.value, float) else str(choice.value)
        table.add_row(choice.option, escape("none" if choice.value is None else value), escape(choice.reason))
    return table
