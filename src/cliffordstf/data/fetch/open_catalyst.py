"""OC20 and OC22 as the Open Catalyst Project publishes them: a part for each archive.

Sizes are rounded by the publisher, so they guide and do not check; the MD5 sums are in the same tables of its
documentation.
"""

from itertools import combinations

from cliffordstf.data.fetch.entries import DataSet, RemoteFile, Unpack

_BASE = "https://dl.fbaipublicfiles.com/opencatalystproject/data"
_MB, _GB = 2**20, 2**30
_SHARDS = ("*.extxyz.xz", "*.txt.xz")
_VALIDATION = ("val_id", "val_ood_ads", "val_ood_cat", "val_ood_both")
_SOME_SPLITS = tuple(some for count in range(1, 5) for some in combinations(_VALIDATION, count))


def _archive(path: str, md5: str, size: float, unpack: Unpack) -> tuple[RemoteFile, ...]:
    name = path.rpartition("/")[2]
    return (RemoteFile(name, (f"{_BASE}/{path}",), int(size), exact=False, checksums=(f"md5:{md5}",), unpack=unpack),)


def _shards(split: str, md5: str, size: float, into: str) -> tuple[RemoteFile, ...]:
    """Raw S2EF shards; they stay compressed, so that they take as much space unpacked."""
    return _archive(f"s2ef_{split}.tar", md5, size, Unpack(_SHARDS, f"s2ef/{into}", int(size)))


def _tests(folder: str, splits: tuple[str, ...]) -> str:
    return " ".join(f"--test {split}={{to}}/{folder}/{split}" for split in splits)


OC20 = DataSet(
    name="oc20",
    title="Open Catalyst 2020: energies and forces (S2EF, raw shards), relaxed energies (IS2RE, LMDB)",
    licence="CC BY 4.0",
    citation="L. Chanussot et al., ACS Catal. 11, 6059 (2021)",
    parts={
        "s2ef-200k": _shards("train_200K", "f8d0909c2623a393148435dede7d3a46", 344 * _MB, "200k/train"),
        "s2ef-2m": _shards("train_2M", "953474cb93f0b08cdc523399f03f7c36", 3.4 * _GB, "2m/train"),
        "s2ef-20m": _shards("train_20M", "863bc983245ffc0285305a1850e19cf7", 34 * _GB, "20m/train"),
        "s2ef-all": _shards("train_all", "12a7087bfd189a06ccbec9bc7add2bcd", 225 * _GB, "all/train"),
        "val_id": _shards("val_id", "f57f7f5c1302637940f2cc858e789410", 1.7 * _GB, "all/val_id"),
        "val_ood_ads": _shards("val_ood_ads", "431ab0d7557a4639605ba8b67793f053", 1.7 * _GB, "all/val_ood_ads"),
        "val_ood_cat": _shards("val_ood_cat", "532d6cd1fe541a0ddb0aa0f99962b7db", 1.7 * _GB, "all/val_ood_cat"),
        "val_ood_both": _shards("val_ood_both", "5731862978d80502bbf7017d68c2c729", 1.9 * _GB, "all/val_ood_both"),
        "is2re": _archive(
            "is2res_train_val_test_lmdbs.tar.gz",
            "cfc04dd2f87b4102ab2f607240d25fb1",
            8.1 * _GB,
            Unpack(
                ("10k/train/data.lmdb", "all/train/data.lmdb", *(f"all/{split}/data.lmdb" for split in _VALIDATION)),
                "is2re",
                97 * _GB,
            ),
        ),
        # Energies of clean slab and free adsorbate by system, for relaxations that hold total energies.
        "reference": (
            RemoteFile(
                "oc20_ref.pkl",
                (f"{_BASE}/oc22/oc20_ref.pkl",),
                exact=False,
                checksums=("md5:043e1e0b0cce64c62f01a8563dbc3178",),
            ),
        ),
    },
    default=("s2ef-200k", "val_id"),
    commands=(
        *(
            (
                frozenset({f"s2ef-{size}", *splits}),
                f"cliffordstf bench oc20 --task s2ef --train {{to}}/s2ef/{size}/train {_tests('s2ef/all', splits)}",
            )
            for size in ("200k", "2m", "20m", "all")
            for splits in _SOME_SPLITS
        ),
        (
            frozenset({"is2re"}),
            f"cliffordstf bench oc20 --task is2re --train {{to}}/is2re/10k/train {_tests('is2re/all', _VALIDATION)}",
        ),
    ),
)


def _oc22_command(task: str) -> str:
    tests = _tests(f"{task}-total", ("val_id", "val_ood"))
    return f"cliffordstf bench oc22 --task {task} --train {{to}}/{task}-total/train {tests}"


OC22 = DataSet(
    name="oc22",
    title="Open Catalyst 2022, oxides: total energies and forces (S2EF), relaxed energies (IS2RE), both LMDB",
    licence="CC BY 4.0",
    citation="R. Tran et al., ACS Catal. 13, 3066 (2023)",
    parts={
        "is2re": _archive(
            "oc22/is2res_total_train_val_test_lmdbs.tar.gz",
            "b35dc24e99ef3aeaee6c5c949903de94",
            109 * _MB,
            Unpack(("train/*.lmdb", "val_id/*.lmdb", "val_ood/*.lmdb"), "is2re-total", 424 * _MB),
        ),
        "s2ef": _archive(
            "oc22/s2ef_total_train_val_test_lmdbs.tar.gz",
            "ebea523c6f8d61248a37b4dd660b11e6",
            20 * _GB,
            Unpack(("train/*.lmdb", "val_id/*.lmdb", "val_ood/*.lmdb"), "s2ef-total", 71 * _GB),
        ),
        "trajectories": _archive(
            "oc22/oc22_trajectories.tar.gz",
            "977b6be1cbac6864e63c4c7fbf8a3fce",
            34 * _GB,
            Unpack(("*.traj",), "trajectories", 80 * _GB),
        ),
    },
    default=("is2re",),
    commands=(
        (frozenset({"is2re"}), _oc22_command("is2re")),
        (frozenset({"s2ef"}), _oc22_command("s2ef")),
    ),
)
