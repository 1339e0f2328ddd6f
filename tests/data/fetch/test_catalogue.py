import re
from inspect import signature
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest

from cliffordstf.bench.studies.acac import TESTS
from cliffordstf.cli.benchmarks import studies
from cliffordstf.cli.fetch import next_commands
from cliffordstf.data.fetch import CATALOGUE
from cliffordstf.data.fetch.entries import ALGORITHMS
from cliffordstf.data.readers import molecule3d, qm9

FILES = [
    pytest.param(dataset, file, id=f"{dataset.name}-{file.name}")
    for dataset in CATALOGUE.values()
    for files in dataset.parts.values()
    for file in files
]
UNPUBLISHED = {"molecule3d", "acac"}
"""Data sets of which nobody publishes a checksum; docs/bench.md says so."""


@pytest.mark.parametrize(("dataset", "file"), FILES)
def test_every_file_has_addresses_and_well_formed_checksums(dataset, file):
    assert file.urls
    for url in file.urls:
        parts = urlsplit(url)
        assert parts.scheme == "https"
        assert parts.hostname
    assert PurePosixPath(file.name).name == file.name
    assert file.size is None or file.size > 0
    assert bool(file.checksums) == (dataset.name not in UNPUBLISHED)
    for checksum in file.checksums:
        algorithm, _, digest = checksum.partition(":")
        assert re.fullmatch(rf"[0-9a-f]{{{ALGORITHMS[algorithm]}}}", digest)
    if file.unpack is not None:
        assert file.unpack.holds
        assert not PurePosixPath(file.unpack.into).is_absolute()
        assert ".." not in PurePosixPath(file.unpack.into).parts


def test_no_two_files_share_a_name_a_checksum_or_a_place():
    for dataset in CATALOGUE.values():
        files = [file for part in dataset.parts.values() for file in part]
        assert len({file.name for file in files}) == len(files)
        places = [file.unpack.into for file in files if file.unpack is not None]
        assert len(set(places)) == len(places)
    checksums = [checksum for parameter in FILES for checksum in parameter.values[1].checksums]
    assert len(set(checksums)) == len(checksums)


def test_every_set_can_be_run_with_what_is_fetched_by_default():
    for name, dataset in CATALOGUE.items():
        assert name == dataset.name
        assert dataset.licence
        assert dataset.citation
        assert set(dataset.default) <= set(dataset.parts)
        ready = [command for needed, command in dataset.commands if needed <= set(dataset.default)]
        assert ready
        for needed, command in dataset.commands:
            assert needed <= set(dataset.parts)
            assert command.startswith(f"cliffordstf bench {name} ")


def test_the_commands_name_places_that_the_archives_fill():
    for dataset in CATALOGUE.values():
        for needed, command in dataset.commands:
            files = [file for part in needed for file in dataset.parts[part]]
            filled = [file.unpack.into for file in files if file.unpack] + [file.name for file in files]
            for place in re.findall(r"\{to\}/(\S+)", command):
                assert any(place == item or place.startswith(f"{item}/") for item in filled), (command, place)


def test_one_command_tests_all_splits_that_were_fetched():
    oc20 = CATALOGUE["oc20"]
    (command,) = next_commands(oc20, ("s2ef-200k", "val_ood_cat", "val_id"), Path("oc20"))
    assert command == (
        "cliffordstf bench oc20 --task s2ef --train oc20/s2ef/200k/train --test val_id=oc20/s2ef/all/val_id --test "
        "val_ood_cat=oc20/s2ef/all/val_ood_cat"
    )
    both = next_commands(oc20, tuple(oc20.parts), Path("oc20"))
    assert len(both) == 5
    assert all(command.count("--test") == 4 for command in both)


def test_the_folders_are_where_bench_looks():
    for name, inside in (("rmd17", ""), ("acac", ""), ("molecule3d", "data/raw")):
        looked_for = signature(getattr(studies, name)).parameters["data"].default
        assert looked_for == CATALOGUE[name].folder / inside


def test_the_layouts_are_those_of_the_readers():
    acac = {file.name for file in CATALOGUE["acac"].parts["all"]}
    assert acac >= {"train_300K.xyz", "isolated_atoms.xyz", *TESTS.values()}
    raw = CATALOGUE["qm9"].parts["all"][0].unpack
    assert raw is not None
    assert raw.holds == (qm9.RAW_FILES,)
    folder = CATALOGUE["molecule3d"].parts["all"][0].unpack
    assert folder is not None
    assert {molecule3d.TABLE, molecule3d.SDF_FILES} <= set(folder.holds)
