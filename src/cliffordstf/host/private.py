"""Folders and files that other users cannot write to: code that this package made is loaded from nowhere else."""

import atexit
import logging
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Where built kernels are kept: $CLIFFORDSTF_CACHE, the user's cache folder, or without a home a temporary one."""
    chosen = os.environ.get("CLIFFORDSTF_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "cliffordstf"
    except RuntimeError:  # containers run under numbers that belong to no user
        return Path(tempfile.gettempdir()) / f"cliffordstf-{os.geteuid() if hasattr(os, 'geteuid') else 'cache'}"


def why_untrusted(path: Path) -> str | None:
    """Why another user could have made or changed a file or folder; None if nobody could.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     why_untrusted(Path(folder)) is None
        True
    """
    if not hasattr(os, "geteuid"):
        return None  # Windows keeps a user's folders private by itself
    try:
        found = path.lstat()
    except OSError as error:
        return f"cannot be examined ({error.strerror})"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return "is a link or a device"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {found.st_uid}"
    return "can be written by other users" if found.st_mode & _OTHERS_WRITE else None


@cache
def code_folder(name: str) -> Path:
    """The folder of the cache for one kind of code, made if need be.

    Where the cache is not safe, or cannot be made, a temporary folder takes its place until the process ends, and a
    warning gives the reason.
    """
    folder = cache_folder() / name
    reason = _make_private(folder)
    if reason is None:
        return folder
    logger.warning(
        "the cache %s is not used: it %s; code is built anew by every process. Remove it, or set CLIFFORDSTF_CACHE to "
        "a folder of your own.",
        folder,
        reason,
    )
    own = Path(tempfile.mkdtemp(prefix="cliffordstf-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _make_private(folder: Path) -> str | None:
    """Make a folder that only this user can write to; the reason why it is none."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        # With a umask of 002 folders are open to the user's group; this one is ours to close.
        if stat.S_ISDIR(status.st_mode) and status.st_mode & _OTHERS_WRITE:
            folder.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    reason = why_untrusted(folder)
    if reason is not None:
        return reason
    open_parent = next((parent for parent in folder.resolve().parents if _lets_others_rename(parent)), None)
    if open_parent is not None:
        return f"can be replaced by other users, who may write to {open_parent}"
    return None if os.access(folder, os.W_OK) else "cannot be written"


def _lets_others_rename(folder: Path) -> bool:
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
