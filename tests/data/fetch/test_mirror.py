import pytest

from cliffordstf.data.fetch.entries import RemoteFile
from cliffordstf.data.fetch.mirror import addresses
from cliffordstf.errors import ConfigError

FIRST = RemoteFile("first.tar", ("https://example.org/1", "https://example.net/1"))
SECOND = RemoteFile("second.txt", ("https://example.org/2",))


def test_without_a_mirror_the_catalogue_says():
    assert addresses([FIRST, SECOND], None) == {"first.tar": FIRST.urls, "second.txt": SECOND.urls}


@pytest.mark.parametrize("base", ["https://mirror.org/sets", "https://mirror.org/sets/"])
def test_an_address_is_a_folder_unless_it_ends_in_a_name(base):
    assert addresses([FIRST, SECOND], base) == {
        "first.tar": ("https://mirror.org/sets/first.tar",),
        "second.txt": ("https://mirror.org/sets/second.txt",),
    }
    one = "https://mirror.org/first.tar?download=1"
    assert addresses([FIRST, SECOND], one) == {"first.tar": (one,), "second.txt": SECOND.urls}


def test_paths_of_this_machine(tmp_path):
    (tmp_path / "first.tar").touch()
    (tmp_path / "other.tar").touch()
    assert addresses([SECOND], str(tmp_path)) == {"second.txt": (f"{tmp_path.as_uri()}/second.txt",)}
    assert addresses([FIRST, SECOND], str(tmp_path / "first.tar"))["first.tar"] == ((tmp_path / "first.tar").as_uri(),)
    assert addresses([FIRST], (tmp_path / "other.tar").as_uri()) == {"first.tar": ((tmp_path / "other.tar").as_uri(),)}
    with pytest.raises(ConfigError, match=r"none of first\.tar, second\.txt by its name"):
        addresses([FIRST, SECOND], str(tmp_path / "other.tar"))
    with pytest.raises(ConfigError, match="does not exist"):
        addresses([FIRST], str(tmp_path / "none"))
