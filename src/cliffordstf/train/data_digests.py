"""What a run learns from, in a few letters: a run that goes on with other data is another run."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.data.shards.stored import StoredFrames, representative
from cliffordstf.errors import ConfigError

ACCEPT = "--accept-changed-data"


def data_digests(train: Sequence[Frame], valid: Sequence[Frame]) -> dict[str, str]:
    """Digests of the structures and labels of both sets; of a set that stays on disk, of its sizes and a sample."""
    return {"training": _digest(train), "validation": _digest(valid)}


def _digest(frames: Sequence[Frame]) -> str:
    digest = hashlib.sha256()
    if isinstance(frames, StoredFrames):
        digest.update(np.ascontiguousarray(frames.atoms).data)
    for frame in representative(frames):
        structure = frame.structure
        for values in (structure.numbers, structure.positions, structure.cell, structure.pbc):
            digest.update(np.ascontiguousarray(values).data)
        for label in (frame.energy, frame.forces, frame.stress, frame.weights):
            digest.update(b"-" if label is None else np.ascontiguousarray(label, dtype=np.float64).data)
    return digest.hexdigest()


def check_data(checkpoint: Path, stored: Mapping[str, Any] | None, found: Mapping[str, str] | None) -> None:
    """Refuse data that are not those of a checkpoint; older checkpoints do not record theirs.

    Raises:
        ConfigError: Structures or labels have changed.
    """
    changed = [name for name, digest in (found or {}).items() if stored and stored.get(name, digest) != digest]
    if changed:
        raise ConfigError(
            f"the {' and '.join(changed)} data are not those that {checkpoint} was trained on (structures, labels or "
            f"options of reading have changed); put them back, or go on with {ACCEPT}."
        )
