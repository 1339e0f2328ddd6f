"""The data sets of the benchmarks: addresses, sizes and checksums as their publishers give them.

A checksum stands here only if it was published; docs/bench.md says where. Addresses after the first one are mirrors.
"""

from cliffordstf.data.fetch.entries import DataSet, RemoteFile, Unpack
from cliffordstf.data.fetch.open_catalyst import OC20, OC22

EVERYTHING = "all"
"""Name of the part of a data set that has only one."""

_FIGSHARE = "https://ndownloader.figshare.com/files"
_SPRINGER = "https://springernature.figshare.com/ndownloader/files"
_AMAZON = "https://s3-eu-west-1.amazonaws.com"

RMD17 = DataSet(
    name="rmd17",
    title="Revised MD17: ten molecules, 100,000 frames each, five official splits",
    licence="CC0",
    citation="A. S. Christensen, O. A. von Lilienfeld, Mach. Learn.: Sci. Technol. 1, 045018 (2020)",
    parts={
        EVERYTHING: (
            RemoteFile(
                "rmd17.tar.bz2",
                (
                    f"{_FIGSHARE}/23950376",
                    "https://archive.materialscloud.org/records/pfffs-fff86/files/rmd17.tar.bz2?download=1",
                    f"{_AMAZON}/pfigshare-u-files/23950376/rmd17.tar.bz2",
                ),
                size=1_066_301_513,
                checksums=("md5:cb1a927628d96f2e966025da4fb63d18",),
                unpack=Unpack(("npz_data/rmd17_*.npz", "splits/index_train_*.csv", "splits/index_test_*.csv")),
            ),
        )
    },
    default=(EVERYTHING,),
    commands=((frozenset({EVERYTHING}), "cliffordstf bench rmd17 --data {to}"),),
)

QM9 = DataSet(
    name="qm9",
    title="QM9: 133,885 molecules with 15 targets, and the list of the 3,054 that failed the consistency check",
    licence="CC0",
    citation="R. Ramakrishnan, P. O. Dral, M. Rupp, O. A. von Lilienfeld, Sci. Data 1, 140022 (2014)",
    parts={
        EVERYTHING: (
            RemoteFile(
                "dsgdb9nsd.xyz.tar.bz2",
                (
                    f"{_FIGSHARE}/3195389",
                    f"{_SPRINGER}/3195389",
                    f"{_AMAZON}/pstorage-npg-968563215/3195389/dsgdb9nsd.xyz.tar.bz2",
                ),
                size=86_144_227,
                checksums=("md5:ad1ebd51ee7f5b3a6e32e974e5d54012",),
                unpack=Unpack(("dsgdb9nsd_*.xyz",), into="raw"),
            ),
            RemoteFile(
                "uncharacterized.txt",
                (f"{_FIGSHARE}/3195404", f"{_SPRINGER}/3195404"),
                size=486_752,
                checksums=("md5:a361887bacb427b8a0ce7903d92a53b4",),
            ),
        )
    },
    default=(EVERYTHING,),
    commands=((frozenset({EVERYTHING}), "cliffordstf bench qm9 --data {to}/raw --exclude {to}/uncharacterized.txt"),),
    note="the complete set also comes from pip install qm9pack, which is what bench qm9 reads by default",
)

_DRIVE_FILE = "1C_KRf8mX-gxny7kL9ACNCEV4ceu_fUGy"

MOLECULE3D = DataSet(
    name="molecule3d",
    title="Molecule3D: 3,899,647 molecules with gaps, and the official splits",
    licence="GPL-3.0",
    citation="Z. Xu et al., Molecule3D, arXiv:2110.01717 (2021)",
    parts={
        EVERYTHING: (
            RemoteFile(
                "molecule3d.zip",
                (
                    f"https://drive.usercontent.google.com/download?id={_DRIVE_FILE}&export=download&confirm=t",
                    f"https://drive.google.com/uc?id={_DRIVE_FILE}&export=download&confirm=t",
                ),
                unpack=Unpack(("properties.csv", "combined_mols_*.sdf", "random_split_inds.json"), into="data/raw"),
            ),
        )
    },
    default=(EVERYTHING,),
    commands=((frozenset({EVERYTHING}), "cliffordstf bench molecule3d --data {to}/data/raw"),),
    note="if Google Drive sends a web page instead, download the file in a browser and give it with --url",
)

_BOTNET = "https://raw.githubusercontent.com/davkovacs/BOTNet-datasets"
_BOTNET_COMMIT = "4a5ea06c3f514f24164428823ba1f5e2d2233b58"
_ACAC_FILES = {
    "isolated_atoms.xyz": (455, True),
    "train_300K.xyz": (880_100, False),
    "train_600K.xyz": (880_112, True),
    "test_MD_300K.xyz": (1_144_100, False),
    "test_MD_600K.xyz": (1_144_153, False),
    "test_dihedral.xyz": (43_974, True),
    "test_H_transfer.xyz": (14_306, True),
}
"""Name -> bytes, and whether they are known to be those of the commit."""

ACAC = DataSet(
    name="acac",
    title="Acetylacetone: 300 K and 600 K, a dihedral scan and a proton transfer",
    licence="MIT",
    citation="I. Batatia et al., The design space of E(3)-equivariant atom-centered interatomic potentials, "
    "arXiv:2205.06643 (2022)",
    parts={
        EVERYTHING: tuple(
            RemoteFile(
                name,
                (f"{_BOTNET}/{_BOTNET_COMMIT}/dataset_acac/{name}", f"{_BOTNET}/main/dataset_acac/{name}"),
                size,
                exact,
            )
            for name, (size, exact) in _ACAC_FILES.items()
        )
    },
    default=(EVERYTHING,),
    commands=((frozenset({EVERYTHING}), "cliffordstf bench acac --data {to}"),),
)

CATALOGUE = {item.name: item for item in (RMD17, QM9, MOLECULE3D, OC20, OC22, ACAC)}
