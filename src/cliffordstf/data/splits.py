"""Training, validation and test sets, drawn with a seed."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from cliffordstf.data.frame import Frame
from cliffordstf.errors import DataError


def count_of(share: float, total: int, what: str) -> int:
    """Number of structures: a fraction below 1 of the total, or a count."""
    number = round(share * total) if 0 < share < 1 else round(share)
    if share < 0 or number > total:
        raise DataError(
            f"{what}={share:g} asks for {number} of {total} structures; give a fraction or a smaller count."
        )
    return int(number)


def random_split(
    total: int,
    valid: float,
    test: float,
    seed: int,
    train: float | None = None,
    systems: Sequence[Hashable] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Indices of training, validation and test set, drawn without replacement.

    Args:
        total: Structures to draw from.
        valid, test: Fraction (below 1) or count (1 or more); 0 for none.
        seed: The same seed gives the same split.
        train: Fraction or count; by default everything that is left.
        systems: What each structure is a state of. Those of one system then are never in the test set and elsewhere:
            consecutive steps of a relaxation are almost the same structure. Validation keeps to that too unless it is
            asked for less than an average system. Sets may get a few structures more than asked for.
    """
    n_test, n_valid = count_of(test, total, "test"), count_of(valid, total, "valid")
    left = total - n_test - n_valid
    n_train = left if train is None else count_of(train, total, "train")
    if n_train < 1 or n_train > left:
        raise DataError(
            f"{total} structures cannot give {n_train} for training, {n_valid} for validation and {n_test} for test; "
            "ask for fewer."
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(total)
    if systems is not None:
        order, ends = _together(order, systems)
        n_test = _next_end(ends, n_test)
        if n_valid * len(ends) >= total:
            n_valid = _next_end(ends, n_test + n_valid) - n_test
        else:
            generator.shuffle(order[n_test:])
        n_train = min(n_train, total - n_test - n_valid)
        if n_train < 1:
            raise DataError(
                f"{len(ends)} systems are too few to test on some and train on others; give fewer for validation and "
                "test, or files of their own."
            )
    held_out = n_test + n_valid
    return order[held_out : held_out + n_train], order[n_test:held_out], order[:n_test]


def _together(order: NDArray[np.int64], systems: Sequence[Hashable]) -> tuple[NDArray[np.int64], list[int]]:
    """An order in which the structures of a system follow each other, and where each system ends in it."""
    members: dict[Hashable, list[int]] = {}
    for index in order.tolist():
        members.setdefault(systems[index], []).append(index)
    ends = np.cumsum([len(indices) for indices in members.values()]).tolist()
    return np.array([index for indices in members.values() for index in indices]), ends


def _next_end(ends: Sequence[int], count: int) -> int:
    """The first end of a system from which on there are so many structures."""
    return 0 if count == 0 else next((end for end in ends if end >= count), ends[-1])


def systems_of(frames: Sequence[Frame]) -> list[Hashable] | None:
    """What each frame is a state of, by its id; None if no two frames share one, or all do."""
    counts = Counter(frame.id for frame in frames if frame.id is not None)
    if len(counts) < 2 or max(counts.values()) == 1:
        return None
    return [("frame", index) if frame.id is None else frame.id for index, frame in enumerate(frames)]
