"""Running other people's packages without letting them change this process."""

import importlib
import importlib.util
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


@contextmanager
def contained(dtype: torch.dtype | None = None) -> Iterator[None]:
    """Keep upstream code quiet and undo what it does to global state.

    Packages print and log when they are imported or build a model, set environment variables (one of them switches off
    the safe loading of files for the whole process) and change the default dtype.

    Args:
        dtype: Default dtype inside the context. Constants such as Clebsch-Gordan coefficients are rounded to it.
    """
    default_dtype, environment, log_level = torch.get_default_dtype(), dict(os.environ), logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.set_default_dtype(dtype or default_dtype)
            yield
    finally:
        torch.set_default_dtype(default_dtype)
        logging.disable(log_level)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)


def upstream(module: str) -> Any:
    """Import a module of a peer's package, contained; typed as Any because most of them carry no types."""
    with contained():
        return importlib.import_module(module)


@contextmanager
def lent(module: str, **contents: Any) -> Iterator[None]:
    """Put a stand-in for a module that a peer imports but does not need here, for the time of an import.

    Args:
        module: Full name. With no contents, importing it fails, as if it were not installed.
        contents: What the stand-in offers.
    """
    before = sys.modules.get(module)
    stand_in = ModuleType(module)
    vars(stand_in).update(contents)
    sys.modules[module] = stand_in if contents else None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
        if before is not None:
            sys.modules[module] = before


@contextmanager
def without_init(*packages: str) -> Iterator[None]:
    """Let modules of some packages be imported without running the packages' `__init__`, for the time of an import.

    For packages whose `__init__` pulls in trainers, databases and downloads that a model does not need.

    Args:
        packages: Full names, parents first.

    Raises:
        ModuleNotFoundError: The outermost package is not installed.
    """
    with ExitStack() as stack:
        for package in packages:
            outermost, *inner = package.split(".")
            spec = importlib.util.find_spec(outermost)
            if spec is None:
                raise ModuleNotFoundError(f"No module named '{outermost}'", name=outermost)
            places = [str(Path(place, *inner)) for place in spec.submodule_search_locations or ()]
            stack.enter_context(lent(package, __path__=places))
        yield


def lent_scatter() -> AbstractContextManager[None]:
    """Stand in for torch-scatter, which has to be compiled, by the function of that name in PyTorch Geometric."""
    upstream("torch_geometric.nn")  # looks for torch-scatter itself, and must not find the stand-in
    return lent("torch_scatter", scatter=upstream("torch_geometric.utils").scatter)
