import importlib
import importlib.util

import pytest
from ase.units import Hartree

from cliffordstf.data.readers import read_frames
from cliffordstf.data.readers.qm9pack import COLUMNS
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name whose code must not run."""
    folder = tmp_path / "qm9pack"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    importlib.invalidate_caches()
    return folder / "data"


def write(file, *indices):
    rows = [",".join(["XYZ_file", "Index", "Elements", "XYZ_Ang", *COLUMNS.values()])]
    for index in indices:
        targets = ",".join(f"{index}.{place:02d}" for place in range(len(COLUMNS)))
        rows.append(f'"a.xyz",{index},"[\'O\',\'H\']","[[0.,0.,1.],[0.5,0.,0.]]",{targets}')
    file.write_text("\n".join(rows) + "\n")


def test_the_tables_are_read_and_no_code_is_run(package):
    write(package / "qm9_part1.csv", 1, 2)
    write(package / "qm9_part2.csv", 4)
    (package / "qm9_polarizability.csv").write_text("XYZ_file,A_xx\n")
    frames, source = read_frames("qm9pack:")
    assert (source.format, [frame.id for frame in frames]) == ("qm9pack", [1, 2, 4])
    assert frames[2].energy == pytest.approx(4.10 * Hartree)
    assert frames[0].structure.numbers.tolist() == [8, 1]
    assert frames[0].structure.positions[0].tolist() == [0, 0, 1]
    assert frames[0].structure.name == "qm9pack:, frame 0 (gdb 1)"
    assert read_frames("qm9pack:", keys=LabelKeys(energy="Cv"), limit=1)[0][0].energy == 1.14


def test_without_it_the_error_says_how_to_install_it(package):
    with pytest.raises(DataError, match=r"holds no data/qm9_part\*\.csv"):
        read_frames("qm9pack:")
    write(package / "qm9_part1.csv", 1)
    (package / "qm9_part1.csv").write_text((package / "qm9_part1.csv").read_text().replace("[[0.,", "[["))
    with pytest.raises(DataError, match="has a damaged row"):
        read_frames("qm9pack:")


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'cliffordstf\[qm9\]'"):
        read_frames("qm9pack:")


@pytest.mark.skipif(importlib.util.find_spec("qm9pack") is None, reason="qm9pack is not installed")
def test_the_installed_package():
    frames, source = read_frames("qm9pack:", limit=3)
    assert [frame.id for frame in frames] == [1, 2, 3]
    assert frames[0].energy == pytest.approx(-40.47893 * Hartree)
    assert source.warnings == ()
