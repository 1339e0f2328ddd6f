import gzip

import pytest
from ase.units import Hartree, kcal, mol

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.sdf import molecules
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError

HEADER = "mol_id,A,B,C,mu,alpha,homo,lumo,gap,r2,zpve,u0,u298,h298,g298,cv,u0_atom,u298_atom,h298_atom,g298_atom\n"


def block(title="gdb_1", atoms=("O", "H")):
    """A molecule whose atoms stand in a row."""
    lines = [title, "  made by hand", "", f"{len(atoms):3d}{1:3d}  0     0  0  0  0  0  0999 V2000"]
    lines += [f"{x:10.4f}{0.0:10.4f}{-123.5:10.4f} {symbol:<3} 0  0  0" for x, symbol in enumerate(atoms)]
    return "\n".join([*lines, "  1  2  1  0", "M  END", "> <note>", "anything", "", "$$$$"]) + "\n"


def test_titles_may_be_empty_or_numbers(tmp_path):
    path = tmp_path / "a.sdf"
    path.write_text(block("") + block("000123", ["D", "Cl"]) + "\n")
    first, second = molecules(path)
    assert (first.title, second.title) == ("", "000123")
    assert second.numbers.tolist() == [1, 17]
    assert second.positions[1].tolist() == [1.0, 0.0, -123.5]
    frames, source = read_frames(path)
    assert (source.format, len(frames), frames[1].id) == ("SDF", 2, 123)
    (tmp_path / "b.sdf.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert len(read_frames(tmp_path / "b.sdf.gz", limit=1)[0]) == 1


def test_a_number_as_first_title_is_no_xyz_file(tmp_path):
    (tmp_path / "a.sdf").write_text(block("42"))
    assert read_frames(tmp_path / "a.sdf")[1].format == "SDF"


def test_broken_molecules_are_named(tmp_path):
    path = tmp_path / "a.sdf"
    for text, reason in {
        block() + "\n".join(block().splitlines()[:5]): r"it ends after 1 of 2 atoms",
        block() + block().replace("V2000", "V3000"): "it has no V2000 table",
        block() + block().replace("-123.5000", "-123.x000"): "could not convert",
        block() + "gdb_2\n": "it has no V2000 table",
    }.items():
        path.write_text(text)
        with pytest.raises(DataError, match=rf"a\.sdf, molecule 1 cannot be read \({reason}"):
            read_frames(path)


def test_reading_stops_at_the_limit(tmp_path):
    path = tmp_path / "a.sdf"
    path.write_text(block() + "broken")
    assert len(read_frames(path, limit=1)[0]) == 1


def test_qm9_table_beside_the_file(tmp_path):
    path = tmp_path / "gdb9.sdf"
    path.write_text(block("gdb_2") + block("gdb_1"))
    rows = [f"gdb_{index}," + ",".join(f"{index}.{place:02d}" for place in range(19)) for index in (1, 2)]
    (tmp_path / "gdb9.sdf.csv").write_text(HEADER + "\n".join(rows) + "\n")
    frames, source = read_frames(path)
    assert (source.format, source.keys["energy"], source.warnings) == ("QM9 SDF", "U0", ())
    assert [frame.id for frame in frames] == [2, 1]
    assert frames[0].energy == pytest.approx(2.10 * Hartree)
    for key, value, factor in (("U", 2.11, Hartree), ("Cv", 2.14, 1), ("u0_atom", 2.15, kcal / mol)):
        assert read_frames(path, keys=LabelKeys(energy=key))[0][0].energy == pytest.approx(value * factor)
    path.write_text(block("gdb_3"))
    with pytest.raises(DataError, match=r"a molecule 'gdb_3' that is not in gdb9\.sdf\.csv"):
        read_frames(path)
    (tmp_path / "gdb9.sdf.csv").write_text(HEADER + "gdb_3,1,x" + ",1" * 17 + "\n")
    with pytest.raises(DataError, match=r"gdb9\.sdf\.csv, line 2 is damaged"):
        read_frames(path)


def test_another_table_is_left_out(tmp_path):
    (tmp_path / "a.sdf").write_text(block())
    (tmp_path / "a.sdf.csv").write_text("atomization_energy\n-1\n")
    frames, source = read_frames(tmp_path / "a.sdf")
    assert frames[0].energy is None
    assert "a.sdf.csv has no column mol_id or u0" in source.warnings[0]


def test_real_gdb9(real_data):
    frames, source = read_frames(real_data / "qm9/derived_gdb9_2500/raw/gdb9.sdf")
    assert (len(frames), source.format, source.warnings) == (2500, "QM9 SDF", ())
    assert (frames[0].id, frames[0].energy) == (18, pytest.approx(-193.08834 * Hartree))
    genuine, _ = read_frames(real_data / "qm9/deepchem/qm9_mini.sdf")
    assert (len(genuine), genuine[1].energy) == (21, pytest.approx(-56.525887 * Hartree))
    assert genuine[1].structure.numbers.tolist() == [7, 1, 1, 1]
    assert len(read_frames(real_data / "qm9/deepchem/gdb1k.sdf", limit=5)[0]) == 5


def test_real_molecule3d_blocks(real_data):
    found = list(molecules(real_data / "molecule3d/genuine_molecule3d_test_chon20_noH.sdf"))
    assert len(found) == 1000
    assert found[0].positions[0].tolist() == [1.2817, 0.8074, 1.9986]
