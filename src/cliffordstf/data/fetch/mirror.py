"""Other places to take the files from: a server with a copy, a folder or a file of this machine."""

import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from cliffordstf.data.fetch.entries import RemoteFile
from cliffordstf.errors import ConfigError


def addresses(files: Sequence[RemoteFile], mirror: str | None) -> dict[str, tuple[str, ...]]:
    """Where to take each file from, by name.

    Args:
        files: What is to be fetched.
        mirror: Address or path. One that ends in the name of a file stands for this file, and the others come from
            where the catalogue says; a file of this machine stands for the only one to be fetched, whatever its name;
            anything else is a folder that holds them all under their names.

    Raises:
        ConfigError: The path does not exist, or it is not clear which file it stands for.
    """
    usual = {file.name: file.urls for file in files}
    if mirror is None:
        return usual
    local = _local(mirror)
    if local is not None and not local.exists():
        raise ConfigError(f"--url {mirror} does not exist; give an address, a folder or a file.")
    name = local.name if local is not None else _last(mirror)
    if name in usual and not (local is not None and local.is_dir()):
        return {**usual, name: (_address(mirror, local),)}
    if local is not None and local.is_file():
        if len(files) > 1:
            raise ConfigError(
                f"--url {mirror} is none of {', '.join(usual)} by its name; rename it, or give the folder that holds "
                "them."
            )
        return {files[0].name: (local.as_uri(),)}
    base = _address(mirror, local).rstrip("/")
    return {name: (f"{base}/{urllib.parse.quote(name)}",) for name in usual}


def _local(mirror: str) -> Path | None:
    """The path that is meant, or None for an address of another machine."""
    parts = urllib.parse.urlsplit(mirror)
    if "://" not in mirror:
        return Path(mirror).expanduser().resolve()
    return Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None


def _address(mirror: str, local: Path | None) -> str:
    return mirror if local is None else local.as_uri()


def _last(url: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
