import io
import tarfile
import zipfile

import pytest

from cliffordstf.data.fetch.entries import Unpack
from cliffordstf.data.fetch.unpack import is_unpacked, staging, unpack
from cliffordstf.errors import DownloadError

CONTENT = Unpack(("frames/*.xyz", "splits.csv"), into="raw")
MEMBERS = {"top/README": b"about", "top/deep/frames/a.xyz": b"1\n", "top/deep/splits.csv": b"0\n"}


def tar(path, members, mode="w:gz", links=()):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target, kind in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return path


def pack(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def written(folder):
    """Files below a folder, without archives and hidden ones."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if "." not in str(path)[:1] and path.parts[0] != "set.archive"}


@pytest.fixture
def archive(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "set.archive"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_the_folder_that_is_wanted_is_found_and_the_rest_is_kept_apart(archive, mode):
    pack(archive, MEMBERS) if mode == "zip" else tar(archive, MEMBERS, mode)
    told = []
    assert unpack(archive, CONTENT, lambda *what: told.append(what)) == 0
    assert written(archive.parent) == {"raw/frames/a.xyz", "raw/splits.csv", "about/set/top/README"}
    assert (archive.parent / "raw/frames/a.xyz").read_bytes() == b"1\n"
    assert is_unpacked(archive.parent, archive.name, CONTENT)
    assert told[-1][0] == "unpacking"
    assert told[-1][1] == told[-1][2]


def test_an_archive_without_folders_goes_where_it_belongs(archive):
    unpack(tar(archive, {"a.xyz": b"1\n", "b.xyz": b"2\n"}), Unpack(("*.xyz",), into="raw"))
    assert written(archive.parent) == {"raw/a.xyz", "raw/b.xyz"}


def test_what_was_there_is_replaced_and_its_neighbours_stay(archive):
    (archive.parent / "raw/frames").mkdir(parents=True)
    (archive.parent / "raw/frames/a.xyz").write_text("old")
    (archive.parent / "raw/mine.txt").write_text("mine")
    unpack(tar(archive, MEMBERS), CONTENT)
    assert (archive.parent / "raw/frames/a.xyz").read_bytes() == b"1\n"
    assert (archive.parent / "raw/mine.txt").read_text() == "mine"


def test_an_unpacking_that_was_killed_is_done_again(archive):
    unpack(tar(archive, MEMBERS), CONTENT)
    stage = staging(archive.parent, archive.name)
    stage.mkdir()
    (stage / "half.xyz").write_text("half")
    assert not is_unpacked(archive.parent, archive.name, CONTENT)
    unpack(archive, CONTENT)
    assert is_unpacked(archive.parent, archive.name, CONTENT)
    assert not any("half" in name for name in written(archive.parent))


@pytest.mark.parametrize("name", ["../outside.xyz", "frames/../../outside.xyz", "/../outside.xyz"])
@pytest.mark.parametrize("make", [tar, pack])
def test_names_that_lead_out_are_refused(archive, make, name):
    make(archive, {**MEMBERS, name: b"bad"})
    with pytest.raises(DownloadError, match=r"outside\.xyz', which leads out of its folder"):
        unpack(archive, CONTENT)
    assert not list(archive.parent.parent.rglob("outside.xyz"))
    assert written(archive.parent) == set()
    assert not staging(archive.parent, archive.name).exists()


def test_links_out_are_refused_and_others_left_out(archive):
    for target in ("/etc/passwd", "../../../secret"):
        tar(archive, MEMBERS, links=[("top/link", target, tarfile.SYMTYPE)])
        with pytest.raises(DownloadError, match="'top/link', which leads out"):
            unpack(archive, CONTENT)
    inside = [("top/deep/link", "splits.csv", tarfile.SYMTYPE), ("top/hard", "top/README", tarfile.LNKTYPE)]
    assert unpack(tar(archive, MEMBERS, links=inside), CONTENT) == 2
    assert written(archive.parent) == {"raw/frames/a.xyz", "raw/splits.csv", "about/set/top/README"}


def test_links_of_a_zip_are_left_out(archive):
    pack(archive, MEMBERS)
    with zipfile.ZipFile(archive, "a") as target:
        link = zipfile.ZipInfo("top/link")
        link.external_attr = 0o120777 << 16
        target.writestr(link, "/etc/passwd")
    assert unpack(archive, CONTENT) == 1
    assert "about/set/top/link" not in written(archive.parent)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_damage_is_one_sentence_and_leaves_nothing(archive, mode):
    whole = tar(archive, {**MEMBERS, "top/big": bytes(range(256)) * 4000}, mode).read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive at all", b""):
        archive.write_bytes(damaged)
        with pytest.raises(DownloadError, match="cannot be unpacked"):
            unpack(archive, CONTENT)
        assert written(archive.parent) == set()
        assert not staging(archive.parent, archive.name).exists()


def test_another_layout_is_named(archive):
    tar(archive, {"top/other.txt": b""})
    with pytest.raises(DownloadError, match=r"holds no folder with frames/\*\.xyz and splits\.csv"):
        unpack(archive, CONTENT)
    assert written(archive.parent) == set()
