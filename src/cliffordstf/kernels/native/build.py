"""The kernels as shared libraries: those of the wheel, or built by the system's C++ compiler, once per machine."""

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)

FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
"""No -ffast-math: NaN must stay NaN, and linking with it would flush denormals in the whole process."""

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


class BuildError(RuntimeError):
    """The kernels cannot be built here; the message gives the reason."""


def cache_folder() -> Path:
    """Where built kernels are kept: $CLIFFORDSTF_CACHE, or the user's cache folder."""
    chosen = os.environ.get("CLIFFORDSTF_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "cliffordstf"


def built_library(precision: str) -> Path:
    """Path of the shared library of a precision, one of `PRECISIONS`: the wheel's, that of the cache, or built now.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    ahead = prebuilt_library(precision)
    if ahead is not None:
        return ahead
    compiler = find_compiler()
    target = cache_folder() / f"kernels-{precision}-{machine_digest(compiler)}.so"
    if not target.exists():
        logger.info("building the %s kernels with %s, once; this takes about 20 seconds", precision, compiler)
        build(compiler, target, [precision])
    return target


def build_shared() -> Path:
    """Path of a library with both precisions that needs nothing but the system's own libraries, built if need be.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    compiler = find_compiler()
    target = cache_folder() / f"libcliffordstf-{machine_digest(compiler)}.so"
    if not target.exists():
        build(compiler, target, list(PRECISIONS), link=("-fopenmp",))
    return target


def prebuilt_library(precision: str) -> Path | None:
    """The library of a wheel for this processor and these sources, if there is one."""
    folder = FOLDER / PREBUILT
    if not folder.is_dir():
        return None
    flags = set(_processor().split())
    for level, needed in AHEAD.items():
        found = folder / prebuilt_name(precision, level)
        if flags.issuperset(needed) and found.is_file():
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
        flags = [*FLAGS, *(_native_flag(compiler, folder) if machine is None else machine)]
        files = [file for file in _sources() if file.endswith(".cpp") and file != INTERFACE]
        jobs = {f"{file}.{p}.o": [file, *PRECISIONS[p]] for file in files for p in precisions}
        missing = [OTHERS[p] for p in precisions] if len(precisions) == 1 else []
        jobs["interface.o"] = [INTERFACE, *missing]
        _compile(compiler, flags, jobs, folder)
        done = _run([compiler, "-shared", *jobs, *link, "-o", "kernels.so"], folder)
        check_compiled(done.stdout, done.returncode)
        # A rename is atomic: two processes that build at once both end up with a whole file.
        os.replace(folder / "kernels.so", target)


def _compile(compiler: str, flags: Sequence[str], jobs: dict[str, list[str]], folder: Path) -> None:
    """As many files at a time as there are processors: a build takes half the time on two cores."""
    waiting, running = list(jobs.items()), list[subprocess.Popen[str]]()
    while waiting or running:
        while waiting and len(running) < max(2, os.cpu_count() or 1):
            out, (file, *defines) = waiting.pop(0)
            command = [compiler, *flags, *defines, "-c", file, "-o", out]
            pipe, joined = subprocess.PIPE, subprocess.STDOUT
            running.append(subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=joined, text=True))
        job = running.pop(0)
        output = job.communicate()[0]
        if job.returncode != 0:
            for other in running:
                other.kill()
                other.communicate()
        check_compiled(output, job.returncode)


def _run(command: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run(command, cwd=folder, stdout=pipe, stderr=joined, text=True, check=False)


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


def machine_digest(compiler: str) -> str:
    """Digest of what the machine code of the kernels depends on: sources, compiler, processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    text = "|".join([_sources_digest(), version, _processor(), platform.machine()])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


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
        if _run([compiler, flag, "-c", "probe.cpp", "-o", "probe.o"], folder).returncode == 0:
            return [flag]
    return []


def check_compiled(output: str, code: int) -> None:
    """Raise the first error that a compiler printed, if it failed."""
    if code != 0:
        first = next((line for line in output.splitlines() if "error" in line), output.strip()[:300])
        raise BuildError(f"the compiler failed: {first}")
