"""The kernels as shared libraries, built by the system's C++ compiler; those of wheels, built ahead.

Nothing of this package is imported here: the hook that builds wheels loads this file alone.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Self

FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
"""No -ffast-math: NaN must stay NaN, and linking with it would flush denormals in the whole process."""

MORE_FLAGS = "CLIFFORDSTF_CXXFLAGS"
"""Environment variable with further flags, such as those of sanitizers; libraries of wheels are then not used."""

FOLDER = Path(__file__).parent
"""The sources."""

PRECISIONS = {"float": (), "double": ("-DCSTF_DOUBLE",)}
OTHERS = {"float": "-DCSTF_NO_DOUBLE", "double": "-DCSTF_NO_FLOAT"}
"""What the interface of a library with one precision is told."""

INTERFACE = "interface.cpp"
"""Compiled once for all precisions of a library."""

AHEAD = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"),
}
"""Levels of instructions that wheels have libraries for, best first, with the processor's flags that they need."""

PREBUILT = "built"
"""Folder of the package with the libraries of a wheel."""

_SEAL = b"cliffordstf sha256:"
"""Stands before the digest at the end of a library."""

_GUARD = """exec 3<&0
{ cat <&3; kill -KILL 0; } >/dev/null 2>&1 &
guard=$!
"$@" </dev/null 3<&-
code=$?
kill -KILL $guard
exit $code"""
"""Runs a command, and kills it with all that it started when the pipe at standard input closes: a compiler must not go
on for minutes after the process that wanted its result was killed."""


class BuildError(RuntimeError):
    """The kernels cannot be built here; the message gives the reason."""


def prebuilt_library(precision: str) -> Path | None:
    """The library of a wheel for this processor and these sources, if there is one."""
    folder = FOLDER / PREBUILT
    if not folder.is_dir() or _more_flags():
        return None
    flags = set(_processor().split())
    for level, needed in AHEAD.items():
        found = folder / prebuilt_name(precision, level)
        if flags.issuperset(needed) and is_whole(found):
            return found
    return None


def prebuilt_name(precision: str, level: str) -> str:
    """File name of a wheel's library; it holds a digest of the sources, so none of other sources is ever taken."""
    return f"kernels-{precision}-{level}-{_sources_digest()[:12]}.so"


def build_ahead(folder: Path) -> list[Path]:
    """Build the libraries of a wheel for x86-64 processors into a folder.

    Raises:
        BuildError: There is no compiler for x86-64, or it fails.
    """
    found = []
    for precision in PRECISIONS:
        for level in AHEAD:
            target = folder / prebuilt_name(precision, level)
            # The C++ runtime goes in: its version on the user's machine must not matter.
            link = ("-static-libstdc++", "-static-libgcc")
            build(find_compiler(), target, [precision], machine=(f"-march={level}",), link=link)
            found.append(target)
    return found


def find_compiler() -> str:
    """The C++ compiler: $CXX, g++ or clang++.

    Raises:
        BuildError: There is none.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler or not shutil.which(compiler):
        raise BuildError("no C++ compiler was found (set CXX or install g++)")
    return compiler


def build(
    compiler: str,
    target: Path,
    precisions: Sequence[str],
    machine: Sequence[str] | None = None,
    link: Sequence[str] = (),
) -> None:
    """Compile the kernels into a shared library.

    Args:
        compiler: Command of the compiler.
        target: File to write; it appears whole or not at all.
        precisions: What it holds, of `PRECISIONS`.
        machine: Flags for the processor; by default those of this machine.
        link: Further flags of the linker. Without -fopenmp its symbols come from the runtime that PyTorch has loaded.

    Raises:
        BuildError: The compiler fails, or the folder cannot be made.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"the cache folder {target.parent} cannot be made ({error.strerror})") from None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = Path(name)
        for file, content in _sources().items():
            (folder / file).write_bytes(content)
        flags = [*FLAGS, *(_native_flag(compiler, folder) if machine is None else machine), *_more_flags()]
        files = [file for file in _sources() if file.endswith(".cpp") and file != INTERFACE]
        jobs = {f"{file}.{p}.o": [file, *PRECISIONS[p]] for file in files for p in precisions}
        missing = [OTHERS[p] for p in precisions] if len(precisions) == 1 else []
        jobs["interface.o"] = [INTERFACE, *missing]
        compile_files(compiler, flags, jobs, folder)
        _check(*_run([compiler, "-shared", *jobs, *link, *_more_flags(), "-o", "kernels.so"], folder))
        seal(folder / "kernels.so")
        # A rename is atomic: two processes that build at once both end up with a whole file.
        os.replace(folder / "kernels.so", target)


def seal(library: Path) -> None:
    """Append the digest of a library, which loaders ignore, and write all of it to the disk."""
    with library.open("rb+") as stream:
        digest = hashlib.sha256(stream.read())
        stream.write(_SEAL + digest.digest())
        stream.flush()
        os.fsync(stream.fileno())


def is_whole(library: Path) -> bool:
    """Whether a sealed library is as it was built. Loading one that was cut off would kill the process."""
    try:
        content = library.read_bytes()
    except OSError:
        return False
    end = len(content) - len(_SEAL) - hashlib.sha256().digest_size
    if end <= 0 or not content.startswith(_SEAL, end):
        return False
    return hashlib.sha256(memoryview(content)[:end]).digest() == content[end + len(_SEAL) :]


def compile_files(compiler: str, flags: Sequence[str], jobs: dict[str, list[str]], folder: Path) -> None:
    """Compile files in a folder, each with definitions of its own; as many at a time as there are processors.

    Args:
        compiler: From `find_compiler`.
        flags: For all files.
        jobs: Source file and definitions by the name of the object file.
        folder: Where it runs.

    Raises:
        BuildError: The compiler fails.
    """
    waiting, running = list(jobs.items()), list[_Command]()
    with ExitStack() as stack:
        while waiting or running:
            while waiting and len(running) < max(2, os.cpu_count() or 1):
                out, (file, *defines) = waiting.pop(0)
                command = [compiler, *flags, *defines, "-c", file, "-o", out]
                running.append(stack.enter_context(_Command(command, folder)))
            _check(*running.pop(0).result())


class _Command:
    """A program that ends with this process, or with its `with` block."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        guarded = ["/bin/sh", "-c", _GUARD, "sh", *command] if os.name == "posix" else list(command)
        theirs, self._ours = os.pipe()
        pipe, joined = subprocess.PIPE, subprocess.STDOUT
        try:
            self._process = subprocess.Popen(
                guarded, cwd=folder, stdin=theirs, stdout=pipe, stderr=joined, text=True, start_new_session=True
            )
        except BaseException:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)

    def result(self) -> tuple[str, int]:
        """What it printed, and its exit code, when it is done."""
        return self._process.communicate()[0], self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _run(command: Sequence[str], folder: Path) -> tuple[str, int]:
    with _Command(command, folder) as running:
        return running.result()


@cache
def _sources() -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(FOLDER.iterdir()) if item.suffix in (".h", ".cpp")}


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for name, content in _sources().items():
        digest.update(name.encode() + content)
    digest.update("|".join(FLAGS).encode())
    return digest.hexdigest()


def digest_of(compiler: str) -> str:
    """What the machine code depends on: sources, compiler, processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    text = "|".join([_sources_digest(), version, _processor(), platform.machine(), *_more_flags()])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _more_flags() -> list[str]:
    return shlex.split(os.environ.get(MORE_FLAGS, ""))


@cache
def _processor() -> str:
    """The processor's instruction sets, as the system names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _native_flag(compiler: str, folder: Path) -> list[str]:
    """The flag for this processor's instructions, if the compiler knows one."""
    (folder / "probe.cpp").write_text("int main() { return 0; }\n")
    for flag in ("-march=native", "-mcpu=native"):
        if _run([compiler, flag, "-c", "probe.cpp", "-o", "probe.o"], folder)[1] == 0:
            return [flag]
    return []


def _check(output: str, code: int) -> None:
    if code != 0:
        first = next((line for line in output.splitlines() if "error" in line), output.strip()[:300])
        raise BuildError(f"the compiler failed: {first}")
