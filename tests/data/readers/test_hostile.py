"""Files that are damaged, cut off or made to do harm: an error in one sentence, soon, and nothing lost in silence."""

import lzma
import os
import sqlite3
import time

import h5py
import lmdb
import numpy as np
import pytest
from ase import Atoms
from ase.db import connect
from ase.io import write

from cliffordstf.data.load import load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers.lmdb_file import open_lmdb
from cliffordstf.data.readers.pickles import GraphObject, load_pickle
from cliffordstf.errors import DataError, LimitError
from tests.data.readers.graph_objects import graph_pickle, slab, write_lmdb

QUICK = 20.0
"""Seconds; most of these took for ever, or all memory."""


@pytest.fixture(autouse=True)
def soon():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < QUICK


def refused(path, match: str | None = None, **limits):
    with pytest.raises(DataError, match=match) as caught:
        load_frames(path, ReadOptions(limits=limits))
    assert "\n" not in str(caught.value)


def test_lmdb_is_read_as_its_library_reads_it(tmp_path):
    path = tmp_path / "many.lmdb"
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 26)
    random = np.random.default_rng(0)
    for start in range(0, 3000, 500):  # several transactions: both descriptions of the file are used
        with environment.begin(write=True) as transaction:
            for number in range(start, start + 500):
                transaction.put(str(number).encode(), random.bytes(int(random.integers(0, 9000))))
    with environment.begin() as transaction:
        expected = dict(transaction.cursor())
    environment.close()
    with open_lmdb(path) as entries:
        assert dict(entries.items()) == expected
        assert entries.get(b"nothing") is None


def test_an_empty_lmdb(tmp_path):
    path = tmp_path / "empty.lmdb"
    lmdb.open(str(path), subdir=False).close()
    with open_lmdb(path) as entries:
        assert entries.keys() == []


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_an_lmdb_that_was_cut_off(tmp_path, share):
    path = tmp_path / "slabs.lmdb"
    write_lmdb(path, [graph_pickle(slab(number), version=2) for number in range(40)])
    content = path.read_bytes()
    used = (1 + np.frombuffer(content, dtype="<u8", count=2, offset=16 + 24 + 96).max()) * 4096
    path.write_bytes(content[: int(share * min(int(used), len(content)))])
    refused(path)


def test_a_number_of_atoms_that_no_file_has(tmp_path):
    path = tmp_path / "large.xyz"
    path.write_text("1000000000000\ncomment\nH 0 0 0\n")
    refused(path, "number of atoms")


def test_a_property_with_more_columns_than_there_are(tmp_path):
    path = tmp_path / "wide.xyz"
    path.write_text('1\nProperties="species:S:1:pos:R:1000000000"\nH 0 0 0\n')
    refused(path, "1000000000 columns")


def test_frames_behind_a_blank_line_are_read(tmp_path):
    path = tmp_path / "gaps.xyz"
    path.write_text("1\nenergy=1\nH 0 0 0\n\n1\nenergy=2\nH 0 0 0\n\n")
    assert [frame.energy for frame in load_frames(path).frames] == [1, 2]


def test_text_where_the_energy_should_be(tmp_path):
    path = tmp_path / "text.xyz"
    path.write_text("1\nenergy=1\nH 0 0 0\n1\nenergy=seven\nH 0 0 0\n")
    refused(path, "'seven' for its energy")


def test_a_file_that_unpacks_to_more_than_is_allowed(tmp_path):
    path = tmp_path / "bomb.xyz.xz"
    path.write_bytes(lzma.compress(b"1\n" + bytes(200_000_000)))
    refused(path, "data.limits.gigabytes", gigabytes=0.1)


def test_more_atoms_than_are_allowed(tmp_path):
    path = tmp_path / "many.xyz"
    write(path, [Atoms("H5", np.arange(15).reshape(5, 3)) for _ in range(3)])
    refused(path, "data.limits.atoms", atoms=14)
    assert len(load_frames(path, ReadOptions(limits={"atoms": 15})).frames) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_pipes_and_devices_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.xyz")
    refused(tmp_path / "pipe.xyz", "pipe or a device")
    refused("/dev/zero", "pipe or a device")


def test_a_pickle_cannot_reserve_memory():
    content = b"\x80\x02}r\xff\xff\xff\x7f."
    with pytest.raises(DataError, match="under number 2147483647"):
        load_pickle(content, "file")


def test_a_refused_pickle_spoils_nothing():
    """It sets an attribute of a stand-in class, which every object of later files would have had."""
    genuine = graph_pickle(slab(1), version=1)
    spoiling = b"\x80\x02ctorch_geometric.data.data\nData\nN}U\x06fieldsK\x07s\x86b."
    with pytest.raises(DataError):
        load_pickle(spoiling, "file")
    assert callable(GraphObject.fields)
    assert "pos" in load_pickle(genuine, "file").fields()


def test_a_database_that_computes_without_end(tmp_path):
    path = tmp_path / "view.db"
    with connect(path) as database:
        database.write(Atoms("H"))
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(systems)")]
        connection.execute("DROP TABLE systems")
        rows = ", ".join(f"n AS {name}" for name in columns)
        connection.execute(
            "CREATE VIEW systems AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
            f"SELECT {rows} FROM c"
        )
    refused(path, "is computed")


def test_an_array_that_json_announces(tmp_path):
    path = tmp_path / "large.db"
    with connect(path) as database:
        database.write(Atoms("H"), data={"a": 1})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE systems SET data = ?", ('{"__ndarray__": [[2000000000], "float64", [0.0]]}',))
    refused(path, "2000000000")


@pytest.fixture
def sdf(tmp_path):
    block = "mol {}\n  prog\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n"
    block += "    0.0000    0.0000    0.0000 C   0  0\n    1.2000    0.0000    0.0000 O   0  0\n"
    block += "  1  2  2  0\nM  END\n$$$$\n"
    path = tmp_path / "mols.sdf"
    path.write_text("".join(block.format(number) for number in range(5)))
    return path


def test_an_sdf_that_was_cut_off_anywhere(sdf):
    whole = sdf.read_bytes()
    assert len(load_frames(sdf).frames) == 5
    accepted = 0
    for size in range(1, len(whole)):
        sdf.write_bytes(whole[:size])
        try:
            load_frames(sdf)
            accepted += 1
        except DataError:
            pass
    # Right behind a molecule, or where a file of one molecule may end, nothing tells that there was more.
    one = len(whole) // 5
    assert accepted <= 5 * len("$$$$\n") + len("M  END\n$$$$\n"), accepted
    assert one > 100


def test_molecules_are_counted_by_their_dollars(sdf):
    sdf.write_text(sdf.read_text().replace("$$$$\n", "$$ $\n", 1))
    refused(sdf, "two tables|M  END|V2000")


def test_fewer_molecules_than_the_table_of_qm9(sdf):
    rows = "".join(f"mol {number},1.0\n" for number in range(6))
    sdf.with_name(sdf.name + ".csv").write_text("mol_id,u0\n" + rows)
    refused(sdf, "holds 5 molecules but mols.sdf.csv has 6")


def hdf5(path):
    with h5py.File(path, "w") as file:
        for name in "abc":
            group = file.create_group(name)
            group["atomic_numbers"], group["positions"] = [1, 1], [[0, 0, 0], [0, 0, 1.0]]
    return path


def test_hdf5_groups_that_are_incomplete_are_reported(tmp_path):
    path = hdf5(tmp_path / "part.h5")
    with h5py.File(path, "a") as file:
        del file["b"]["positions"]
    loaded = load_frames(path)
    assert len(loaded.frames) == 2
    assert any("1 groups of part.h5 lack" in warning and "b" in warning for warning in loaded.warnings)


def test_hdf5_links_that_lead_nowhere_or_elsewhere(tmp_path):
    path = hdf5(tmp_path / "links.h5")
    with h5py.File(path, "a") as file:
        file["d"] = h5py.SoftLink("/nothing")
    refused(path, "'/d' cannot be opened")
    with h5py.File(path, "a") as file:
        del file["d"]
        file["d"] = h5py.ExternalLink("/etc/hostname", "/")
    refused(path, "refers to another file")


def test_hdf5_groups_that_hold_themselves(tmp_path):
    path = hdf5(tmp_path / "circle.h5")
    with h5py.File(path, "a") as file:
        file["b"]["self"] = file["/"]
        file.create_group("deep")["up"] = file["/"]
    refused(path, "nested|circle")


def test_hdf5_that_announces_more_than_it_holds(tmp_path):
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        file["atomic_numbers"] = [1]
        file.create_dataset("positions", shape=(10**10, 1, 3), dtype="f8", chunks=(1000, 1, 3))
    refused(path, "240 GB")


def test_limits_are_errors_of_data():
    assert issubclass(LimitError, DataError)
