"""The other end of a worker's pipes, and the check that a path is a checkout."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import cliffordstf
from cliffordstf.errors import CliffordSTFError, ConfigError

SCRIPT = Path(__file__).with_name("worker.py")


class CheckoutError(CliffordSTFError, RuntimeError):
    """The code of a checkout cannot be measured."""


def source_folder(checkout: Path) -> Path:
    """The folder with the package of a checkout.

    Raises:
        ConfigError: It is no checkout of cliffordstf.
    """
    source = checkout / "src"
    if not (source / "cliffordstf" / "__init__.py").is_file():
        raise ConfigError(
            f"--against {checkout} is no checkout of cliffordstf (it has no src/cliffordstf); give the folder of one, "
            "for example of 'git worktree add FOLDER COMMIT'."
        )
    return source.resolve()


def own_source() -> Path:
    """The folder with this package."""
    return Path(cliffordstf.__file__).resolve().parents[1]


def commit_of(source: Path) -> str:
    """Commit of a source folder, with a plus if its files differ from it; `unknown` without git."""
    try:
        commit = _git(source, "rev-parse", "HEAD")
        return commit + ("+" if _git(source, "status", "--porcelain", "--", str(source)) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class WorkerProcess:
    """A process that runs `worker.py` with the package of a source folder, by this interpreter.

    Args:
        source: Folder with the package.
        threads: Of PyTorch and of the kernels.
    """

    def __init__(self, source: Path, threads: int) -> None:
        self.source = source
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed in `close`
        paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)],  # -P: the script's own folder holds no packages
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        try:
            found = Path(self.ask("hello")["file"])
            if source not in found.resolve().parents:
                raise CheckoutError(f"{sys.executable} imports cliffordstf from {found}, not from {source}.")
        except CheckoutError:
            self.close()
            raise

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            CheckoutError: The process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **values}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines()
            reason = lines[-1].rstrip(".") if lines else f"exit code {code}"
            raise CheckoutError(
                f"the code in {self.source} failed at '{do}' ({reason}); check it out again, or compare with another "
                "commit."
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        with suppress(OSError):  # what could not be sent to a dead process
            self._process.stdin.close()
        self._errors.close()

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
