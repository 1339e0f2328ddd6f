import tarfile

import numpy as np
import pytest
from ase.units import Hartree

from cliffordstf.data.exclusions import leave_out, read_ids
from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.qm9 import TARGETS, read_raw
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError


def raw(folder, index, energy="-1.0", x="0.5"):
    """Hydrogen as a raw file."""
    targets = [f"{value}." for value in range(len(TARGETS))]
    targets[TARGETS.index("U0")] = energy
    lines = ["2", "gdb " + "\t".join([str(index), *targets]) + "\t", f"H\t0.\t0.\t{x}\t0.1", "H\t0.\t0.\t-0.5\t-0.1"]
    path = folder / f"dsgdb9nsd_{index:06d}.xyz"
    path.write_text("\n".join([*lines, "4400.1", "[H][H]\t[H][H]\t", "InChI=1S/H2/h1H\tInChI=1S/H2/h1H"]) + "\n")
    return path


def test_fifteen_targets_and_their_units(tmp_path):
    path = raw(tmp_path, 7, x="5.*^-1")
    frames, source = read_frames(path)
    assert (source.format, source.units["energy"], source.keys["energy"]) == ("QM9 xyz", "Hartree", "U0")
    assert source.warnings == ()
    assert (frames[0].energy, frames[0].id) == (pytest.approx(-Hartree), 7)
    assert frames[0].structure.name == "dsgdb9nsd_000007.xyz, frame 0 (gdb 7)"
    assert frames[0].structure.positions[0, 2] == 0.5
    for place, target in enumerate(TARGETS):
        frames, source = read_frames(path, keys=LabelKeys(energy=target))
        factor = Hartree if target in ("homo", "lumo", "gap", "zpve", "U0", "U", "H", "G") else 1.0
        assert frames[0].energy == pytest.approx((-1.0 if target == "U0" else place) * factor)
        assert source.units["energy"] == ("1" if factor == 1 else "Hartree")


def test_folder_and_pattern(tmp_path):
    for index in (10, 9, 123456):
        raw(tmp_path, index)
    (tmp_path / "notes.txt").write_text("58\n")
    for path in (tmp_path, tmp_path / "dsgdb9nsd_*.xyz"):
        assert [frame.id for frame in read_frames(path)[0]] == [9, 10, 123456]
    assert len(read_frames(tmp_path, limit=2)[0]) == 2


def test_damaged_files_are_named(tmp_path):
    path = raw(tmp_path, 1)
    text = path.read_text()
    path.write_text("\n".join(text.splitlines()[:3]))
    with pytest.raises(DataError, match=r"dsgdb9nsd_000001\.xyz is not a whole raw file of QM9 \(2 atoms are stated"):
        read_frames(path)
    path.write_text(text.replace("0.\t0.\t-0.5", "0.\tzero\t-0.5"))
    with pytest.raises(DataError, match="is not a whole raw file of QM9"):
        read_frames(path)


def test_real_raw_files(real_data, tmp_path):
    with tarfile.open(real_data / "qm9/dsgdb9nsd_sample.xyz.tar.bz2") as archive:
        archive.extractall(tmp_path, filter="data")
    frames, source = read_frames(tmp_path)
    assert (len(frames), source.warnings) == (1944, ())
    assert frames[0].energy == pytest.approx(-40.47893 * Hartree)
    record = read_raw(tmp_path / "dsgdb9nsd_000002.xyz", None).records[0]
    assert record.properties["Cv"] == 6.316
    assert record.properties["gap"] == pytest.approx(record.properties["lumo"] - record.properties["homo"])
    np.testing.assert_allclose(record.positions[3], [-0.5202777357, 1.3435321258, -0.7755426124])
    ids = read_ids(real_data / "qm9/uncharacterized_load_atoms_bad_qm9.txt")
    kept, warnings = leave_out(frames, ids, tmp_path)
    removed = len(frames) - len(kept)
    assert removed == sum(frame.id in ids for frame in frames)
    assert warnings[0].startswith(f"{removed} of 1944 structures")
