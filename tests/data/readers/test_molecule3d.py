import pytest

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.molecule3d import read
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError
from tests.data.readers.test_sdf import block

HEADER = "cid,dipole x,dipole y,dipole z,homo,lumo,homolumogap,scf energy\n"


@pytest.fixture
def folder(tmp_path):
    """Four molecules in two files, the second of which comes first by letters."""
    (tmp_path / "combined_mols_0_to_2.sdf").write_text(block("001") + block(""))
    (tmp_path / "combined_mols_10_to_12.sdf").write_text(block("004") + block("005"))
    rows = [f"00{cid},1,2,3,-{cid},{cid},{2 * cid},-100" for cid in (1, 3, 4, 5)]
    (tmp_path / "properties.csv").write_text(HEADER + "\n".join(rows) + "\n")
    return tmp_path


def test_the_folder_is_one_data_set(folder):
    frames, source = read_frames(folder)
    assert (source.format, source.keys["energy"], source.units["energy"]) == ("Molecule3D", "gap", "eV")
    assert source.warnings == ()
    assert [frame.energy for frame in frames] == [2, 6, 8, 10]
    assert [frame.id for frame in frames] == [1, 3, 4, 5]
    assert [frame.energy for frame in read_frames(folder, keys=LabelKeys(energy="dipole_z"))[0]] == [3, 3, 3, 3]
    assert len(read_frames(folder, limit=3)[0]) == 3


def test_files_that_do_not_belong_together(folder):
    table = folder / "properties.csv"
    text = table.read_text()
    table.write_text(text + "006,1,2,3,4,5,6,7\n")
    with pytest.raises(DataError, match=r"4 molecules in its SDF files but 5 in properties\.csv"):
        read_frames(folder)
    table.write_text(text.rpartition("005")[0])
    with pytest.raises(DataError, match=r"more molecules in its SDF files than properties\.csv has rows"):
        read_frames(folder)
    table.write_text(text.replace("004", "014"))
    with pytest.raises(DataError, match=r"molecule 004 where properties\.csv has 14"):
        read_frames(folder)
    table.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="lacks the column 'cid' or 'homolumogap'"):
        read_frames(folder)


def test_trap_7_the_gap_is_target_5(real_data):
    path = real_data / "molecule3d/layout_fixture_from_qm9/data/raw"
    contents = read(path, None)
    assert len(contents.records) == 400
    rows = [line.split(",") for line in (path / "properties.csv").read_text().splitlines()[1:]]
    for record, row in zip(contents.records, rows, strict=True):
        assert list(record.properties)[5] == "gap"
        gap, homo, lumo = (record.properties[name] for name in ("gap", "homo", "lumo"))
        assert gap == float(row[1:][5])
        assert gap == pytest.approx(lumo - homo, abs=0.01)  # made of numbers with four digits in Hartree
    frames, _ = read_frames(path)
    assert frames[0].energy == pytest.approx(10.29678856)
