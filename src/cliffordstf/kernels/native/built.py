"""Where the libraries of the kernels come from: the wheel, the cache, or the compiler."""

import logging
from collections.abc import Callable
from pathlib import Path

from cliffordstf.host.private import code_folder, why_untrusted
from cliffordstf.kernels.native.build import PRECISIONS, build, digest_of, find_compiler, is_whole, prebuilt_library

logger = logging.getLogger(__name__)

FOLDER = "kernels"
"""In the cache."""


def built_library(precision: str) -> Path:
    """Path of the shared library of a precision, one of `PRECISIONS`: the wheel's, that of the cache, or built now.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    ahead = prebuilt_library(precision)
    if ahead is not None:
        return ahead
    compiler = find_compiler()
    name = f"kernels-{precision}-{digest_of(compiler)}.so"
    return cached(FOLDER, name, lambda target: build(compiler, target, [precision]))


def build_shared() -> Path:
    """Path of a library with both precisions that needs nothing but the system's own libraries, built if need be.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    compiler = find_compiler()
    name = f"libcliffordstf-{digest_of(compiler)}.so"
    return cached(FOLDER, name, lambda target: build(compiler, target, list(PRECISIONS), link=("-fopenmp",)))


def cached(folder: str, name: str, make: Callable[[Path], None]) -> Path:
    """A library in a folder of the cache, built where it is not there, not whole, or of somebody else."""
    target = code_folder(folder) / name
    if target.exists() or target.is_symlink():
        reason = why_untrusted(target) or ("is damaged" if not is_whole(target) else None)
        if reason is None:
            return target
        logger.warning("%s %s; it is built anew.", target, reason)
    logger.info("building %s with the system's compiler, once; this takes about 20 seconds", name)
    make(target)
    return target
