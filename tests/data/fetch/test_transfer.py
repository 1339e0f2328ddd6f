import hashlib
from pathlib import Path

import numpy as np
import pytest

from cliffordstf.data.fetch.checksums import silent
from cliffordstf.data.fetch.entries import RemoteFile
from cliffordstf.data.fetch.transfer import ATTEMPTS, transfer
from cliffordstf.errors import DownloadError, FileWriteError

CONTENT = np.random.default_rng(0).bytes(300_000)
HALF = 150_000
PUBLISHED = RemoteFile("set.bin", (), len(CONTENT), checksums=(f"md5:{hashlib.md5(CONTENT).hexdigest()}",))
UNPUBLISHED = RemoteFile("set.bin", ())


@pytest.fixture
def part(tmp_path, server):
    server.files["set.bin"] = CONTENT
    return tmp_path / "new" / "set.bin.part"


def bring(server, part, file=PUBLISHED, report=silent, url=None):
    pauses = []
    transfer(url or f"{server.url}/set.bin", file, part, report, pauses.append)
    return pauses


def test_a_file_comes_whole_with_progress(server, part):
    told = []
    assert bring(server, part, report=lambda *what: told.append(what)) == []
    assert part.read_bytes() == CONTENT
    assert told[-1] == ("fetching", len(CONTENT), len(CONTENT))
    assert server.requests == [None]


@pytest.mark.parametrize("file", [PUBLISHED, UNPUBLISHED])
def test_a_cut_connection_goes_on_where_it_broke(server, part, file):
    server.cuts = [100_000, 50_000]
    pauses = bring(server, part, file)
    assert part.read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-", "bytes=150000-"]
    assert pauses == [1, 1]  # new bytes start the count of attempts again


def test_a_later_process_goes_on(server, part):
    server.cuts = [HALF] + [0] * (ATTEMPTS - 1)
    with pytest.raises(DownloadError, match="broke off after 150,000 of 300,000 bytes"):
        bring(server, part)
    assert part.stat().st_size == HALF
    server.requests.clear()
    bring(server, part)
    assert part.read_bytes() == CONTENT
    assert server.requests == [f"bytes={HALF}-"]


def test_a_server_without_ranges_sends_everything_again(server, part):
    server.ranges, server.cuts = False, [HALF]
    bring(server, part)
    assert part.read_bytes() == CONTENT


def test_a_server_that_never_gets_further_is_given_up(server, part):
    server.ranges, server.cuts = False, [100_000, 50_000, 60_000, 70_000, len(CONTENT)]
    with pytest.raises(DownloadError, match="broke off after 70,000 of 300,000 bytes"):
        bring(server, part)
    assert len(server.requests) == ATTEMPTS


def test_a_file_that_changed_meanwhile_is_not_pieced_together(server, part):
    server.cuts = [HALF] + [0] * (ATTEMPTS - 1)
    with pytest.raises(DownloadError):
        bring(server, part, UNPUBLISHED)
    other = CONTENT[::-1]
    server.files["set.bin"] = other
    bring(server, part, UNPUBLISHED)
    assert part.read_bytes() == other


def test_a_part_of_unknown_origin_is_used_only_if_a_checksum_will_tell(server, part):
    part.parent.mkdir()
    part.write_bytes(CONTENT[:HALF])
    bring(server, part, UNPUBLISHED)
    part.write_bytes(CONTENT[:HALF])
    part.with_name(part.name + ".from").unlink()
    bring(server, part, PUBLISHED)
    assert server.requests == [None, f"bytes={HALF}-"]
    assert part.read_bytes() == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_whole_part_is_not_fetched_again(server, part, size):
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    bring(server, part, RemoteFile("set.bin", (), size, checksums=PUBLISHED.checksums))
    assert part.read_bytes() == CONTENT
    assert server.requests == ([] if size else [f"bytes={len(CONTENT)}-"])


def test_a_busy_server_is_asked_again_with_longer_pauses(server, part):
    server.refusals = [503, 429]
    assert bring(server, part) == [1, 2]
    assert part.read_bytes() == CONTENT
    server.refusals = [503] * ATTEMPTS
    part.unlink()
    with pytest.raises(DownloadError, match="answers HTTP 503"):
        bring(server, part)


def test_refusals_are_final_and_named(server, part):
    for code, words in ((403, "gives no access"), (410, "has no such file"), (400, "refuses")):
        server.refusals = [code]
        with pytest.raises(DownloadError, match=rf"127\.0\.0\.1 {words} \(HTTP {code}\)"):
            bring(server, part)
    server.refusals = [202]  # as servers answer that want to see a browser first
    with pytest.raises(DownloadError, match="answers HTTP 202 instead of the file"):
        bring(server, part)
    with pytest.raises(DownloadError, match=r"no such file \(HTTP 404\)"):
        bring(server, part, url=f"{server.url}/other.bin")
    assert not part.exists()


def test_a_web_page_is_not_the_file(server, part):
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="sent a web page"):
        bring(server, part)
    assert not part.exists()


def test_a_wrong_size_is_seen_before_the_first_byte(server, part):
    with pytest.raises(DownloadError, match="has 300,000 bytes where 299,999 are published"):
        bring(server, part, RemoteFile("set.bin", (), len(CONTENT) - 1))
    assert not part.exists()


def test_nobody_there(part):
    pauses = []
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached"):
        transfer("http://127.0.0.1:9/set.bin", PUBLISHED, part, silent, pauses.append)
    assert pauses == [1, 2, 4]
    with pytest.raises(DownloadError, match="no address"):
        transfer("set.bin", PUBLISHED, part, silent)


def test_a_full_disk_is_one_sentence(server, part):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    part.parent.mkdir()
    part.symlink_to("/dev/full")
    with pytest.raises(FileWriteError, match="No space left on device"):
        bring(server, part)
