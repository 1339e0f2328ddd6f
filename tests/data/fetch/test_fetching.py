import hashlib
import shutil
from dataclasses import replace

import pytest

from cliffordstf.data.fetch import DataSet, RemoteFile, Unpack, chosen_files, fetch, state
from cliffordstf.data.fetch.checksums import RECORD, recorded
from cliffordstf.errors import ConfigError, DataError, DownloadError, FileWriteError
from cliffordstf.host.files import lock
from tests.data.fetch.test_unpack import tar

FRAMES = Unpack(("*.xyz",), into="raw")


def sums(content):
    return (f"md5:{hashlib.md5(content).hexdigest()}", f"sha256:{hashlib.sha256(content).hexdigest()}")


def data_set(*files):
    return DataSet("toy", "A toy", "CC0", "nobody", {"all": files}, ("all",), ())


@pytest.fixture
def archive(server, tmp_path):
    """A published archive on the server, and its entry."""
    content = tar(tmp_path / "packed.tar.gz", {"toy/a.xyz": b"1\n", "toy/b.xyz": b"2\n"}).read_bytes()
    server.files["toy.tar.gz"] = content
    return RemoteFile("toy.tar.gz", (f"{server.url}/toy.tar.gz",), len(content), True, sums(content), FRAMES)


@pytest.fixture
def table(server):
    """A plain file of which nothing is published."""
    server.files["table.xyz"] = b"first version"
    return RemoteFile("table.xyz", (f"{server.url}/table.xyz",))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data" / "toy"


def run(folder, *files, **options):
    return fetch(data_set(*files), folder, pause=lambda seconds: None, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name not in (".fetch.lock", RECORD))


def test_an_archive_is_fetched_checked_and_unpacked(server, archive, folder):
    (outcome,) = run(folder, archive)
    assert outcome.fetched
    assert (outcome.verdict.against, outcome.verdict.algorithms) == ("published", ("md5", "sha256"))
    assert sorted(path.name for path in (folder / "raw").iterdir()) == ["a.xyz", "b.xyz"]
    assert names(folder) == ["raw"]
    assert recorded(folder) == {"toy.tar.gz": hashlib.sha256(server.files["toy.tar.gz"]).hexdigest()}


def test_what_is_there_is_not_fetched_again(server, archive, table, folder):
    assert [state(file, folder) for file in (archive, table)] == ["missing", "missing"]
    run(folder, archive, table)
    assert [state(file, folder) for file in (archive, table)] == ["there", "there"]
    server.requests.clear()
    unpacked, plain = run(folder, archive, table)
    assert server.requests == []
    assert not unpacked.fetched
    assert unpacked.ours
    assert not plain.fetched
    assert plain.verdict.against == "recorded"


def test_archives_are_kept_on_request_and_checked_again(server, archive, folder):
    run(folder, archive, keep=True)
    assert names(folder) == ["raw", "toy.tar.gz"]
    shutil.rmtree(folder / "raw")
    assert state(archive, folder) == "archive"
    server.requests.clear()
    (outcome,) = run(folder, archive, keep=True)
    assert outcome.verdict.against == "published"
    assert names(folder) == ["raw", "toy.tar.gz"]
    assert server.requests == []


def test_a_user_s_own_archive_is_used_and_stays(server, archive, folder):
    folder.mkdir(parents=True)
    (folder / archive.name).write_bytes(server.files[archive.name])
    (outcome,) = run(folder, archive)
    assert not outcome.ours
    assert names(folder) == ["raw", "toy.tar.gz"]
    assert server.requests == []


def test_data_from_elsewhere_are_left_alone(server, archive, folder):
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "mine.xyz").write_text("mine")
    (outcome,) = run(folder, archive)
    assert (outcome.fetched, outcome.verdict, outcome.ours) == (False, None, False)
    assert names(folder / "raw") == ["mine.xyz"]
    assert server.requests == []


def test_a_wrong_checksum_keeps_nothing_and_says_both(archive, folder):
    wrong = replace(archive, checksums=("md5:" + "0" * 32,))
    right = archive.checksums[0].removeprefix("md5:")
    with pytest.raises(DownloadError, match=rf"md5 is {right} where 0{{32}} is published"):
        run(folder, wrong)
    assert names(folder) == []
    assert recorded(folder) == {}


def test_a_wrong_size_keeps_nothing(server, archive, folder):
    with pytest.raises(DownloadError, match=rf"{archive.size:,} bytes where {archive.size + 1:,} are published"):
        run(folder, replace(archive, size=archive.size + 1))
    assert names(folder) == []
    (outcome,) = run(folder, replace(archive, size=archive.size + 1, exact=False))
    assert outcome.verdict.against == "published"


def test_a_bad_beginning_is_thrown_away_and_fetched_anew(server, archive, folder):
    folder.mkdir(parents=True)
    (folder / "toy.tar.gz.part").write_bytes(b"not the beginning")
    assert state(archive, folder) == "begun"
    (outcome,) = run(folder, archive)
    assert outcome.verdict.against == "published"
    assert server.requests == ["bytes=17-", None]
    assert names(folder) == ["raw"]


def test_the_next_mirror_is_tried(server, archive, folder):
    server.files["bad.tar.gz"] = b"x" * archive.size
    bad = (f"{server.url}/none.tar.gz", f"{server.url}/bad.tar.gz")
    (outcome,) = run(folder, replace(archive, urls=(*bad, *archive.urls)))
    assert outcome.verdict.against == "published"
    shutil.rmtree(folder)
    with pytest.raises(DownloadError, match=r"no such file \(HTTP 404\); what .*/bad\.tar\.gz gives was thrown away"):
        run(folder, replace(archive, urls=bad))


def test_trust_on_first_use(server, table, folder):
    (first,) = run(folder, table)
    assert first.verdict.against == "nothing"
    assert (folder / RECORD).read_text() == f"{hashlib.sha256(b'first version').hexdigest()}  table.xyz\n"
    (folder / "table.xyz").unlink()
    (again,) = run(folder, table)
    assert (again.fetched, again.verdict.against) == (True, "recorded")
    (folder / "table.xyz").unlink()
    server.files["table.xyz"] = b"other version"
    with pytest.raises(DownloadError, match=r"where SHA256SUMS has .* remove its line from SHA256SUMS"):
        run(folder, table)
    assert names(folder) == []


def test_a_file_that_was_changed_here_is_found_and_not_removed(table, folder):
    run(folder, table)
    (folder / "table.xyz").write_text("edited")
    with pytest.raises(DownloadError, match=r"table\.xyz is there, but its sha256 is .* move it away"):
        run(folder, table)
    assert (folder / "table.xyz").read_text() == "edited"


def test_a_damaged_record_is_named(table, folder):
    run(folder, table)
    (folder / RECORD).write_text("nonsense\n")
    with pytest.raises(DataError, match="is not a list of SHA-256 sums"):
        run(folder, table)


def test_a_file_and_a_folder_of_this_machine_can_be_mirrors(server, archive, table, folder, tmp_path):
    copies = tmp_path / "a copy"
    copies.mkdir()
    for name in (archive.name, table.name):
        (copies / name).write_bytes(server.files[name])
    run(folder, archive, table, mirror=copies.as_uri())
    assert names(folder) == ["raw", "table.xyz"]
    shutil.rmtree(folder)
    (copies / archive.name).rename(copies / "renamed")
    run(folder, archive, mirror=str(copies / "renamed"))
    assert names(folder) == ["raw"]
    assert server.requests == []
    (copies / "renamed").write_bytes(b"x" * archive.size)
    shutil.rmtree(folder)
    with pytest.raises(DownloadError, match="thrown away because its md5"):
        run(folder, archive, mirror=str(copies / "renamed"))


def test_a_disk_that_is_too_small_is_seen_first(server, archive, folder, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2_000_000_000))
    big = replace(archive, unpack=replace(FRAMES, size=3_000_000_000))
    with pytest.raises(FileWriteError, match=r"needs 3\.0 GB and its disk has 2\.0 GB left"):
        run(folder, big)
    assert server.requests == []


def test_two_processes_do_not_write_one_file(archive, folder):
    with lock(folder / ".fetch.lock"), pytest.raises(DownloadError, match="another process"):
        run(folder, archive)


def test_parts_are_chosen_by_name(archive, table):
    both = replace(data_set(archive), parts={"all": (archive,), "extra": (table,)})
    assert chosen_files(both) == [archive]
    assert chosen_files(both, ["extra", "all"]) == [table, archive]
    with pytest.raises(ConfigError, match="did you mean 'extra'"):
        chosen_files(both, ["extras"])
