import numpy as np
import pytest

from cliffordstf.data.exclusions import excluded_qm9_ids, leave_out, read_ids
from cliffordstf.data.frame import Frame
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError, DataError

OFFICIAL = """\
Molecules that failed the check
-------------------------------

  Index   SMILES      converted

     58   N=C1OC=C1   6.1   fine
    611   OC1=NON=N1  7.0
"""


def frames(*ids):
    return [Frame(Structure(np.array([1]), np.zeros((1, 3))), energy=0.0, id=number) for number in ids]


def test_ids_are_the_numbers_that_lines_start_with(tmp_path):
    path = tmp_path / "uncharacterized.txt"
    path.write_text(OFFICIAL)
    assert read_ids(path) == {58, 611}
    with pytest.raises(DataError, match="names 2 ids, but the list of QM9 has 3054"):
        excluded_qm9_ids(path)
    path.write_text("nothing\n")
    with pytest.raises(DataError, match="names no ids"):
        read_ids(path)
    with pytest.raises(DataError, match="there is no file"):
        read_ids(tmp_path / "none.txt")


def test_structures_are_left_out_and_counted():
    kept, warnings = leave_out(frames(1, 58, 3, None), {58, 611}, "a.xyz")
    assert [frame.id for frame in kept] == [1, 3, None]
    assert warnings == ["1 of 4 structures of a.xyz were left out by data.exclude, which names 2 ids."]
    with pytest.raises(ConfigError, match=r"those of a\.xyz have none"):
        leave_out(frames(None), {58}, "a.xyz")
    with pytest.raises(DataError, match="leaves nothing of the 1 structures"):
        leave_out(frames(58), {58}, "a.xyz")


def test_real_list(real_data):
    ids = excluded_qm9_ids(real_data / "qm9/uncharacterized_load_atoms_bad_qm9.txt")
    assert {58, 61, 80, 133866} <= ids
