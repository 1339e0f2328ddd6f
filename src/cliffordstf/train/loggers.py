"""Run loggers: the rows of a training history, written to TensorBoard or Weights & Biases as well.

A logger never ends a training: whatever goes wrong in it is one warning line, after which it is closed.
"""

import importlib.util
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from cliffordstf.errors import ConfigError
from cliffordstf.host.files import write_text

logger = logging.getLogger(__name__)

LoggerName = Literal["tensorboard", "wandb"]
Row = Mapping[str, float | None]
Result = TypeVar("Result")

RUN_ID_FILE = "wandb-run-id"
"""File of a run folder with the id of its W&B run, which a resumed run continues."""
PROJECT = "cliffordstf"
"""W&B project, unless WANDB_PROJECT names another."""


class RunLogger(Protocol):
    """Something that receives the numbers of a run while it goes on."""

    def log(self, row: Row, step: int) -> None:
        """Write the numbers of a row; entries that are None are left out.

        Args:
            row: Numbers by name, such as `train_loss` or `valid_force_mae_mev_per_a`.
            step: Updates of the weights so far.
        """
        ...

    def close(self) -> None:
        """Write what is left and let go of files and processes; further rows are ignored."""
        ...


def open_loggers(names: Sequence[LoggerName], directory: Path, config: Mapping[str, Any]) -> list[RunLogger]:
    """Open loggers for a new run, or for one that is resumed in the same folder.

    Args:
        names: Which ones.
        directory: Run folder. TensorBoard writes into its `tensorboard`, W&B into its `wandb`; both continue what
            they find there.
        config: Options of the run, for display.

    Returns:
        Those that could be opened, in order; for any other there is a warning.

    Raises:
        ConfigError: The package of a logger is not installed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for run_logger in open_loggers([], Path(folder), {"seed": 0}):
        ...         run_logger.log({"train_loss": 0.5}, step=100)
        ...         run_logger.close()
    """
    check_loggers(names)
    openers: dict[LoggerName, Callable[[Path, Mapping[str, Any]], RunLogger]] = {
        "tensorboard": lambda folder, _: TensorBoardLogger(folder),
        "wandb": WandbLogger,
    }
    guarded = (GuardedLogger(name, openers[name], directory, config) for name in dict.fromkeys(names))
    return [item for item in guarded if item.is_open]


def check_loggers(names: Sequence[LoggerName]) -> None:
    """Refuse a logger whose package is not installed.

    Raises:
        ConfigError: It is not.
    """
    for name in names:
        _require(name)


def _require(name: LoggerName) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # Without an origin it is a folder `wandb` of another run.
        raise ConfigError(
            f"the logger '{name}' needs a package that is not installed; run: pip install 'cliffordstf[{name}]'."
        )


class GuardedLogger:
    """A logger whose failures do not reach the training.

    Attributes:
        is_open: Whether rows are still written.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[Path, Mapping[str, Any]], RunLogger],
        directory: Path,
        config: Mapping[str, Any],
    ) -> None:
        self._name = name
        self._inner: RunLogger | None = None
        self._inner = self._try("opened", lambda: opener(directory, config))

    @property
    def is_open(self) -> bool:
        """Whether rows are still written."""
        return self._inner is not None

    def log(self, row: Row, step: int) -> None:
        """Write a row unless the logger has been closed."""
        if (inner := self._inner) is not None:
            self._try("written to", lambda: inner.log(row, step))

    def close(self) -> None:
        """Close the logger; a second time does nothing."""
        if (inner := self._inner) is not None:
            self._inner = None
            self._try("closed", inner.close)

    def _try(self, what: str, action: Callable[[], Result]) -> Result | None:
        try:
            return action()
        except Exception as error:  # Whatever it is, the training is worth more.
            text = " ".join(str(error).split()) or type(error).__name__
            logger.warning("the logger '%s' cannot be %s (%s); the run goes on without it.", self._name, what, text)
            self._abandon()
            return None

    def _abandon(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            try:
                inner.close()
            except Exception as error:  # The failure before it was reported.
                logger.debug("closing the logger '%s' failed too: %s", self._name, error)


class TensorBoardLogger:
    """Scalars as TensorBoard event files, in the folder `tensorboard` of a run."""

    def __init__(self, directory: Path) -> None:
        # Not the writer of PyTorch: it has a thread of its own, whose failures nobody can catch.
        from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415 - optional
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415 - optional

        self._events, self._summaries = event_pb2, summary_pb2
        folder = directory / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns() // 1000}.{os.getpid()}"
        self._writer: Any = RecordWriter((folder / name).open("xb"))
        self._write(file_version="brain.Event:2")
        self._is_new = True

    def log(self, row: Row, step: int) -> None:
        """Write a row, so that TensorBoard shows it at once."""
        if self._is_new:
            # A resumed run starts from its last checkpoint: rows of an earlier sitting from this step on are hidden.
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(session_log=start, step=step)
            self._is_new = False
        value = self._summaries.Summary.Value
        values = [value(tag=name, simple_value=number) for name, number in _numbers(row).items()]
        self._write(summary=self._summaries.Summary(value=values), step=step)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()

    def _write(self, **fields: Any) -> None:
        self._writer.write(self._events.Event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()


class WandbLogger:
    """A Weights & Biases run, in the folder `wandb` of a run.

    It is offline unless the environment variable WANDB_MODE names another mode: nothing leaves the machine until
    `wandb sync` is called. A resumed run has the id of the run before, so that both are one run in W&B; offline, each
    sitting has a folder of its own, and `wandb sync --append` adds the later ones.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if mode != "online":
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # Reports go over the network in any mode.
        import wandb  # noqa: PLC0415 - optional

        directory.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        wandb.setup(settings)  # Without it a run without credentials would wait for an answer from the keyboard.
        self._run: Any = wandb.init(
            mode=mode,
            dir=str(directory),
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=os.environ.get("WANDB_NAME", directory.resolve().name),
            id=_run_id(directory / RUN_ID_FILE),
            resume="allow",
            reinit="create_new",  # Neither a run of the calling program nor one of another training is touched.
            config=dict(config),
            settings=settings,
        )

    def log(self, row: Row, step: int) -> None:
        """Write a row; W&B ignores steps that a run has passed already."""
        self._run.log(_numbers(row), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def _run_id(path: Path) -> str:
    """Id of the W&B run of a folder, which the file keeps."""
    if not path.is_file():
        write_text(path, secrets.token_hex(4) + "\n")
    return path.read_text(encoding="utf-8").strip()


def _numbers(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if value is not None}
