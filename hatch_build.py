"""Put compiled kernels into wheels, so that installing needs no compiler and the first use no wait."""

import importlib.util
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "cliffordstf/kernels/native"
SWITCH = "CLIFFORDSTF_KERNELS_AHEAD"
"""Set to 0 for a wheel without kernels."""


class KernelHook(BuildHookInterface):
    """Builds the kernels for x86-64 with AVX2 and with AVX-512; other machines build them at first use."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to the wheel and name the platform that it is for."""
        is_here = sys.platform == "linux" and platform.machine() == "x86_64"
        if version == "editable" or os.environ.get(SWITCH) == "0" or not is_here:
            return
        build = _build_module(Path(self.root) / "src" / PLACE / "build.py")
        try:
            libraries = build.build_ahead(Path(self.directory) / "kernels")
        except build.BuildError as error:
            self.app.display_warning(f"the wheel has no kernels ({error}); they are built at first use.")
            return
        for library in libraries:
            build_data["force_include"][str(library)] = f"{PLACE}/{build.PREBUILT}/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform(libraries)}"


def _build_module(path: Path) -> ModuleType:
    """`build.py` alone: the package it is part of needs more than a build has."""
    spec = importlib.util.spec_from_file_location("cliffordstf_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _platform(libraries: list[Path]) -> str:
    """The platform tag: the oldest glibc that has every function that the libraries call."""
    needed = (2, 17)
    for library in libraries:
        done = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return "linux_x86_64"
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", done.stdout)
        needed = max([needed, *((int(major), int(minor)) for major, minor in versions)])
    return f"manylinux_{needed[0]}_{needed[1]}_x86_64"
