"""What the catalogue says of a data set: files, where they are, how they are checked, where their content belongs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ALGORITHMS = {"md5": 32, "sha1": 40, "sha256": 64}
"""Checksums that are known, with the number of their hexadecimal digits."""


@dataclass(frozen=True)
class Unpack:
    """What is in an archive.

    Attributes:
        holds: Patterns, each of which something matches in the folder of the archive that is wanted. That folder is
            found by them, however many others it is packed in.
        into: Folder under that of the data set where its content belongs.
        size: Bytes when unpacked, roughly; None if nobody says.
    """

    holds: tuple[str, ...]
    into: str = "."
    size: int | None = None


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch.

    Attributes:
        name: Under which it is stored.
        urls: Where it is, the best place first; all of them hold the same bytes.
        size: Bytes; None if nobody says.
        exact: Whether `size` is exact, so that any other is refused.
        checksums: Published ones as `algorithm:digest`; all of them must hold. Empty if none is published.
        unpack: How, if it is an archive (tar, zip).
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    exact: bool = True
    checksums: tuple[str, ...] = ()
    unpack: Unpack | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        name: As in `bench NAME`.
        title: One line.
        licence: Of the data.
        citation: Whom to cite.
        parts: Files by the name of the part that they make up.
        default: Parts that are fetched if none is named.
        commands: What can be run with the parts named in front; `{to}` stands for the folder.
        note: Anything else that a user should know.
    """

    name: str
    title: str
    licence: str
    citation: str
    parts: Mapping[str, tuple[RemoteFile, ...]]
    default: tuple[str, ...]
    commands: tuple[tuple[frozenset[str], str], ...]
    note: str = ""

    @property
    def folder(self) -> Path:
        """Where `bench` looks for it."""
        return Path("data") / self.name
