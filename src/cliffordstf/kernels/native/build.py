"""Build the kernels with the system's C++ compiler, once per machine, source and compiler."""

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

logger = logging.getLogger(__name__)

FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
"""No -ffast-math: NaN must stay NaN, and linking with it would flush denormals in the whole process."""

PRECISIONS = {"float": ("-DCSTF_NO_DOUBLE",), "double": ("-DCSTF_DOUBLE", "-DCSTF_NO_FLOAT")}


class BuildError(RuntimeError):
    """The kernels cannot be built here; the message says why."""


def cache_folder() -> Path:
    """Where built kernels are kept: $CLIFFORDSTF_CACHE, or the user's cache folder."""
    chosen = os.environ.get("CLIFFORDSTF_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "cliffordstf"


def built_library(precision: str) -> Path:
    """Path of the shared library of a precision, one of `PRECISIONS`, built now if it is not in the cache.

    Raises:
        BuildError: There is no compiler, or it fails.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler or not shutil.which(compiler):
        raise BuildError("no C++ compiler was found (set CXX or install g++)")
    sources = sorted(
        (item for item in resources.files(__package__).iterdir() if item.name.endswith((".h", ".cpp"))),
        key=lambda item: item.name,
    )
    digest = hashlib.sha256()
    for item in sources:
        digest.update(item.name.encode() + item.read_bytes())
    digest.update("|".join([*_machine(compiler), *FLAGS]).encode())
    target = cache_folder() / f"kernels-{precision}-{digest.hexdigest()[:20]}.so"
    if not target.exists():
        logger.info("building the %s kernels with %s, once; this takes about 20 seconds", precision, compiler)
        _build(compiler, {item.name: item.read_bytes() for item in sources}, PRECISIONS[precision], target)
    return target


def _machine(compiler: str) -> list[str]:
    """What the machine code depends on beside the source: compiler, processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        processor = platform.processor()
    return [version, processor, platform.machine()]


def _build(compiler: str, sources: dict[str, bytes], defines: tuple[str, ...], target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"the cache folder {target.parent} cannot be made ({error.strerror})") from None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = Path(name)
        for file, content in sources.items():
            (folder / file).write_bytes(content)
        native = _native_flag(compiler, folder)
        # All files at once: a build takes half the time on two cores.
        files = [file.removesuffix(".cpp") for file in sources if file.endswith(".cpp")]
        jobs = [
            subprocess.Popen(
                [compiler, *FLAGS, *native, *defines, "-c", f"{file}.cpp", "-o", f"{file}.o"],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for file in files
        ]
        for job in jobs:
            _check(job.communicate()[0], job.returncode)
        objects = [f"{file}.o" for file in files]
        # Not linked with OpenMP: its symbols come from the runtime that PyTorch has already loaded, so that there is
        # one pool of threads. `library.load` links it where that fails.
        link = [compiler, "-shared", *objects, "-o", "kernels.so"]
        done = subprocess.run(link, cwd=folder, capture_output=True, text=True, check=False)
        _check(done.stdout + done.stderr, done.returncode)
        # A rename is atomic: two processes that build at once both end up with a whole file.
        os.replace(folder / "kernels.so", target)


def _native_flag(compiler: str, folder: Path) -> list[str]:
    """The flag for this processor's instructions, if the compiler knows one."""
    (folder / "probe.cpp").write_text("int main() { return 0; }\n")
    for flag in ("-march=native", "-mcpu=native"):
        command = [compiler, flag, "-c", "probe.cpp", "-o", "probe.o"]
        if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0:
            return [flag]
    return []


def _check(output: str, code: int) -> None:
    if code != 0:
        first = next((line for line in output.splitlines() if "error" in line), output.strip()[:300])
        raise BuildError(f"the compiler failed: {first}")
