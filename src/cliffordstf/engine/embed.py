"""Libraries of other programs with the C++ runtime inside."""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cliffordstf.errors import ConfigError
from cliffordstf.kernels.native.build import (
    FOLDER,
    PRECISIONS,
    BuildError,
    build,
    cache_folder,
    check_compiled,
    find_compiler,
    machine_digest,
)


@dataclass(frozen=True)
class Embedding:
    """A shared library that is more than the runtime.

    Attributes:
        name: File name of the library.
        sources: C++ files of its own; they find `cliffordstf.h`.
        headers: Files of theirs whose content decides what is built.
        flags: Flags of the compiler for them.
        exports: The only symbols that others see: a process may have another copy of the runtime.
    """

    name: str
    sources: Sequence[Path]
    headers: Sequence[Path]
    flags: Sequence[str]
    exports: Sequence[str]


def build_embedding(wanted: Embedding) -> Path:
    """Build the library for this machine, or take it from the cache.

    Raises:
        ConfigError: There is no compiler, or it fails.
    """
    try:
        compiler = find_compiler()
        target = cache_folder() / f"{Path(wanted.name).stem}-{_digest(wanted, compiler)}" / wanted.name
        if not target.exists():
            _build(wanted, compiler, target)
    except BuildError as error:
        raise ConfigError(f"{wanted.name} cannot be built: {error}.") from None
    return target


def _digest(wanted: Embedding, compiler: str) -> str:
    digest = hashlib.sha256(machine_digest(compiler).encode())
    for file in (*wanted.sources, *wanted.headers):
        digest.update(file.name.encode() + file.read_bytes())
    digest.update(repr((tuple(wanted.flags), tuple(wanted.exports))).encode())
    return digest.hexdigest()[:20]


def _build(wanted: Embedding, compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objects = [str(folder / f"{source.stem}.o") for source in wanted.sources]
        for source, result in zip(wanted.sources, objects, strict=True):
            command = [
                compiler,
                "-std=c++17",
                "-O2",
                "-fPIC",
                *wanted.flags,
                f"-I{FOLDER}",
                "-c",
                str(source),
                "-o",
                result,
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            check_compiled(done.stdout, done.returncode)
        shown = " ".join(f"{symbol};" for symbol in wanted.exports)
        (folder / "exports").write_text(f"{{ global: {shown} local: *; }};\n")
        link = (*objects, "-fopenmp", f"-Wl,--version-script={folder / 'exports'}")
        build(compiler, target, list(PRECISIONS), link=link)
