"""Libraries of other programs with the C++ runtime inside."""

import hashlib
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
    compile_files,
    digest_of,
    find_compiler,
)
from cliffordstf.kernels.native.built import cached


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
        folder = f"{Path(wanted.name).stem}-{_digest(wanted, compiler)}"
        return cached(folder, wanted.name, lambda target: _build(wanted, compiler, target))
    except BuildError as error:
        raise ConfigError(f"{wanted.name} cannot be built: {error}.") from None


def _digest(wanted: Embedding, compiler: str) -> str:
    digest = hashlib.sha256(digest_of(compiler).encode())
    for file in (*wanted.sources, *wanted.headers):
        digest.update(file.name.encode() + file.read_bytes())
    digest.update(repr((tuple(wanted.flags), tuple(wanted.exports))).encode())
    return digest.hexdigest()[:20]


def _build(wanted: Embedding, compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = ["-std=c++17", "-O2", "-fPIC", *wanted.flags, f"-I{FOLDER}"]
        compile_files(compiler, flags, {f"{source.stem}.o": [str(source)] for source in wanted.sources}, folder)
        objects = [str(folder / f"{source.stem}.o") for source in wanted.sources]
        shown = " ".join(f"{symbol};" for symbol in wanted.exports)
        (folder / "exports").write_text(f"{{ global: {shown} local: *; }};\n")
        link = (*objects, "-fopenmp", f"-Wl,--version-script={folder / 'exports'}")
        build(compiler, target, list(PRECISIONS), link=link)
