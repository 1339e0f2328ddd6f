"""A few mutations of every kind of file; `make fuzz` and `make attack` do the same by the thousand."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attack.mutations import mutated
from tests.attack.targets import TARGETS, Target, outcome

NAMES = [target.name for target in TARGETS]


class Genuine:
    """Not a dataclass: hypothesis prints what it is given."""

    def __init__(self, target: Target, path: Path, content: bytes) -> None:
        self.target, self.path, self.content = target, path, content


@pytest.fixture(params=TARGETS, ids=NAMES)
def genuine(request, tmp_path):
    """A kind of file, a genuine one, and its content."""
    path = request.param.make(tmp_path)
    return Genuine(request.param, path, path.read_bytes())


def test_genuine_files_open_without_a_word(genuine):
    assert genuine.target.open(genuine.path) == genuine.target.whole


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 2**32))
def test_damage_is_refused_or_harmless(genuine, seed):
    genuine.path.write_bytes(mutated(genuine.content, random.Random(seed)))
    assert outcome(genuine.target, genuine.path) != "traceback"


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(share=st.floats(0, 0.999))
def test_cut_off_files(genuine, share):
    genuine.path.write_bytes(genuine.content[: int(share * len(genuine.content))])
    assert outcome(genuine.target, genuine.path) != "traceback"
