"""A disk that is full or broken, and kills, at changes of files spread over a command; `make attack` takes them all."""

import pytest

from tests.attack.faults import can_inject, inject


@pytest.mark.skipif(not can_inject(), reason="faults are injected on Linux with a C compiler")
@pytest.mark.parametrize("command", ["train", "md --resume", "predict"])
def test_after_a_fault_the_state_is_the_old_or_the_new_one(command, tmp_path):
    counts = inject(tmp_path, 3, [command])[command]
    assert counts["faults"] == 9
    assert counts["stopped"] >= 6, counts  # kills and full disks do stop a command; a log may be given up
    assert counts["tracebacks"] == counts["lost"] == 0, counts
