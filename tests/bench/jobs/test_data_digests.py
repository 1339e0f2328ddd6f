"""Which data a result is of."""

from pathlib import Path

from cliffordstf.bench.jobs.data_digests import data_digest, listing_digest


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "a.xyz").write_text(text)
    return folder


def test_contents_names_and_sizes_tell_data_apart(tmp_path):
    one, same = write(tmp_path / "one" / "train", "1\n\nH 0 0 0\n"), write(tmp_path / "two" / "train", "1\n\nH 0 0 0\n")
    changed, longer = (
        write(tmp_path / "b" / "train", "1\n\nH 0 0 1\n"),
        write(tmp_path / "c" / "train", "1\n\nH 0 0 10\n"),
    )
    assert data_digest(one) == data_digest(same) != data_digest(changed)
    assert listing_digest(one) == listing_digest(same) == listing_digest(changed) != listing_digest(longer)
    (changed / "a.xyz").rename(changed / "b.xyz")
    assert data_digest(one) != data_digest(changed)
    other = write(tmp_path / "d" / "train", "1\n\nH 0 0 0\n")
    (other / "a.xyz").rename(other / "b.xyz")
    assert listing_digest(one) != listing_digest(other)


def test_a_folder_that_is_one_data_set_is_looked_into(tmp_path):
    for name, size in (("small", 10), ("large", 20)):
        (tmp_path / name / "train").mkdir(parents=True)
        (tmp_path / name / "train" / "data.mdb").write_bytes(b"0" * size)
    small, large = (tmp_path / name / "train" for name in ("small", "large"))
    assert listing_digest(small) != listing_digest(large)
    assert data_digest(small) != data_digest(large)
    before = data_digest(small)
    for name in ("lock.mdb", ".DS_Store", "README.md", "data.cache"):
        (small / name).write_text("something else")
    assert data_digest(small) == before


def test_a_file_that_is_named_counts_whatever_it_is_called(tmp_path):
    for name, text in (("a", "1"), ("b", "22")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "frames.txt").write_text(text)
    assert listing_digest(tmp_path / "a" / "frames.txt") != listing_digest(tmp_path / "b" / "frames.txt")


def test_an_installed_package_has_no_files_to_list():
    assert listing_digest(Path("qm9pack:")) is None
