"""Errors that a user can act on.

Every message is one sentence that says what is wrong, where, and what to do about it. The command line prints it
without a traceback.
"""


class CliffordSTFError(Exception):
    """Base class of every error that this package raises on purpose."""


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
