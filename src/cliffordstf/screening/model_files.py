"""Which model files results are of."""

import hashlib
from collections.abc import Sequence

from cliffordstf.model.shipped import resolve


def model_digests(models: Sequence[str]) -> list[str]:
    """SHA-256 of each model file."""
    found = []
    for model in models:
        with resolve(model).open("rb") as stream:
            found.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return found
