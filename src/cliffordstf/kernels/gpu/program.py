"""Whole kernels: their source text, the module that Triton reads it from, and their launch."""

import hashlib
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cliffordstf.host.files import write_text
from cliffordstf.host.private import code_folder, why_untrusted
from cliffordstf.kernels.gpu.code import Body, Channels

OPTIONS = {"num_warps": 1, "enable_fp_fusion": True}
"""How Triton compiles a kernel if it asks for nothing else: one warp; multiply and add in one instruction."""

_TEMPLATE = """\
import triton
import triton.language as tl


@triton.jit
def {name}({parameters}):
{statements}
"""


@dataclass(frozen=True)
class Loop:
    """The loop of a kernel: its first line, and the statements that find the rows of each turn."""

    header: str
    rows: tuple[str, ...]


class Kernel:
    """One kernel, with one or several programs for every part of the work.

    Args:
        name: What the kernel is called in profiles.
        parameters: Names of its arguments.
        statements: What a program does.
        blocks: Programs that share a part.
        warps: Warps of a program.
    """

    def __init__(
        self, name: str, parameters: Iterable[str], statements: Iterable[str], blocks: int = 1, warps: int = 1
    ) -> None:
        self.name, self.blocks = name, blocks
        self.parameters = list(parameters)
        self.options = {**OPTIONS, "num_warps": warps}
        self.source = _TEMPLATE.format(
            name=name, parameters=", ".join(self.parameters), statements="\n".join(f"    {line}" for line in statements)
        )

    @cached_property
    def function(self) -> Any:
        """What Triton makes of the source."""
        return _load(self.name, self.source)

    def launch(self, parts: int, values: Mapping[str, Tensor | int], device: Tensor) -> None:
        """Run the kernel on the device of a tensor."""
        if parts == 0:
            return
        with torch.cuda.device_of(device):
            grid = (parts * self.blocks,)
            self.function[grid](*(values[name] for name in self.parameters), **self.options)


def form_kernel(
    name: str, arguments: Iterable[str], channels: Channels, rows: Iterable[str], loop: Loop | None, body: Body
) -> Kernel:
    """The kernel of a form, with a program for every part of the work and every block of channels.

    Args:
        name: What the kernel is called in profiles.
        arguments: Names of the arguments beside the tensors of the form.
        channels: How channels are cut.
        rows: Statements that find the rows from `part`, the number of the part.
        loop: The loop around the body, None if each part is done once.
        body: What is computed.
    """
    turns = [loop.header, *(f"    {line}" for line in (*loop.rows, *body.inside))] if loop else body.inside
    statements = [*_heading(channels, body), *rows, *body.before, *turns, *body.behind]
    return Kernel(name, [*arguments, *body.used], statements, channels.blocks)


def _heading(channels: Channels, body: Body) -> list[str]:
    lines = [
        # 64 bits: what is computed from the part addresses more than 2^31 values in a large system.
        f"part = (tl.program_id(0) // {channels.blocks}).to(tl.int64)",
        f"block = tl.program_id(0) % {channels.blocks}",
        f"channel = block * {channels.block} + tl.arange(0, {channels.block})",
        f"zero = tl.zeros([{channels.block}], dtype={body.used[0]}.dtype.element_ty)",
    ]
    return [*lines, f"inside = channel < {channels.count}"] if channels.masked else lines


def _load(name: str, source: str) -> Any:
    """The function of a source; Triton wants to find it in a file."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:20]
    path = code_folder("triton") / f"{name}_{digest}.py"
    if not path.is_file() or why_untrusted(path) or path.read_text(encoding="utf-8") != source:
        write_text(path, source)
    spec = importlib.util.spec_from_file_location(f"cliffordstf_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
