"""Native MACE on the CPU by symmetrix-xl: an untrained MACE, exported by the converter of that package."""

import contextlib
import importlib
import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from ase.calculators.calculator import Calculator as AseCalculator

from cliffordstf import zoo

NAME = "symmetrix-xl mace"
PACKAGE = "symmetrix-xl==0.1.1"
PEER = "mace"
"""128 scalar and 128 vector channels, two layers: the size that MACE is usually trained in."""
CUTOFF = 5.0
NEIGHBOURS = 42.0


def unavailable() -> str | None:
    """Why it cannot take part; None if it can."""
    if importlib.util.find_spec("symmetrix") is None:
        return f"{NAME} needs {PACKAGE}; install it with 'pip install {PACKAGE}', or with 'make peers'."
    return zoo.available(PEER)


def export(elements: Sequence[int], folder: Path) -> Path:
    """The file of an untrained MACE for these elements, in the format of symmetrix-xl.

    Weights are those of one seed, so that symmetrix-xl finds what it has compiled for them.
    """
    potential = zoo.build(PEER, elements, cutoff=CUTOFF, average_neighbours=NEIGHBOURS, seed=0)
    network: Any = potential.model.network
    checkpoint, file = folder / "mace.model", folder / "mace.json"
    torch.save(network.eval(), checkpoint)
    with _silence():
        extract = importlib.import_module("symmetrix.extract_mace_data").extract_mace_data
        exported = extract(str(checkpoint), species=[], radial_format="compact")
    file.write_text(json.dumps(exported), encoding="utf-8")
    return file


def calculator(file: Path) -> AseCalculator:
    """A calculator in float32, with the kernels that are compiled for the model."""
    with _silence():
        found: AseCalculator = importlib.import_module("symmetrix").Symmetrix(str(file), dtype="float32")
    return found


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Without what the package and its dependencies print and warn of."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
