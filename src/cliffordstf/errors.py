"""Errors that a user can act on.

Every message is one sentence that says what is wrong, where, and what to do about it. The command line prints it
without a traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class CliffordSTFError(Exception):
    """Base class of every error that this package raises on purpose."""


@contextmanager
def readable(path: object, kind: str, error: "type[CliffordSTFError] | None" = None) -> Iterator[None]:
    """Turn whatever a damaged file makes libraries raise into one sentence.

    Args:
        path: Of the file.
        kind: What it should be, for example `model file`.
        error: Class of the error; ModelFileError by default.

    Raises:
        CliffordSTFError: In place of any other exception; our own pass through.
    """
    try:
        yield
    except CliffordSTFError:
        raise
    except Exception as found:
        detail = " ".join(str(found).split())[:300]
        raise (error or ModelFileError)(
            f"{path} is not a readable {kind} ({type(found).__name__}: {detail}); copy or write it again."
        ) from found


class StructureError(CliffordSTFError, ValueError):
    """A structure cannot be used: bad positions, a bad cell, overlapping atoms."""


class UnknownElementError(CliffordSTFError, ValueError):
    """A structure holds a chemical element that the model was not built for."""


class ConfigError(CliffordSTFError, ValueError):
    """A configuration is not valid; the message names the field and the nearest valid choice."""


class ModelFileError(CliffordSTFError, RuntimeError):
    """A model file or checkpoint cannot be read or written."""


class FileWriteError(CliffordSTFError, OSError):
    """A file cannot be written: the disk is full, the folder is read-only."""


class DataError(CliffordSTFError, ValueError):
    """A data set cannot be used: unknown format, missing labels, bad units, empty or leaking splits."""


class DownloadError(CliffordSTFError, OSError):
    """A file cannot be fetched: no network, not on the server, or not what was published."""


class LimitError(DataError):
    """A file would cost more memory or time than the limits of reading allow."""
