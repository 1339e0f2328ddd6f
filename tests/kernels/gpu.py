"""How GPU kernels are tested where there is no GPU: in processes that interpret them, or compile them for one.

Triton decides when it is imported whether it interprets or compiles, for good: either kind of check runs in a process
of its own.
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import pytest
import torch
from torch import Tensor

from cliffordstf.kernels.gpu.program import Kernel

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton"
)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

Run = Callable[..., None]
Operation = Callable[..., Tensor]


@contextmanager
def process(**environment: str) -> Iterator[Run]:
    """Run functions in another process, which starts with these environment variables."""
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            pool.submit(int).result()  # the process starts with its first task
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def random_tensors(shapes: Sequence[tuple[int, ...]], seed: int, dtype=torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def derivatives(operation: Operation, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Result, gradients, and gradients of a random combination of the gradients."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    result = operation(*inputs)
    (gradient,) = (tensor.to(result).requires_grad_() for tensor in random_tensors([result.shape], 100))
    first = torch.autograd.grad(result, inputs, gradient, create_graph=True)
    cotangents = [tensor.to(result) for tensor in random_tensors([tensor.shape for tensor in first], 101)]
    second = torch.autograd.grad(first, [gradient, *inputs], cotangents)
    return [result, *first, *second]


def compare(operation: Operation, expected: Operation, inputs: Sequence[Tensor], tolerance: float = 1e-12) -> None:
    for got, wanted in zip(derivatives(operation, inputs), derivatives(expected, inputs), strict=True):
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


def compile_only(kernel: Kernel, _: int, values: dict[str, Tensor | int], device: Tensor) -> None:
    """Stand in for `Kernel.launch`: make machine code, and see that no value changes its precision."""
    from triton import compile as compile_kernel  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    types = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int64: "*i64", torch.uint8: "*u8"}
    used = {name: values[name] for name in kernel.parameters}
    signature = {name: types[v.dtype] if isinstance(v, Tensor) else "i32" for name, v in used.items()}
    source = ASTSource(kernel.function, signature, {})
    compiled = compile_kernel(source, target=GPUTarget("cuda", 80, 32), options=kernel.options)
    assert compiled.asm["cubin"]
    assert (".f64 " if device.dtype == torch.float32 else ".f32 ") not in compiled.asm["ptx"]
    # One warp needs neither barriers nor shared memory.
    assert compiled.metadata.shared == 0
    assert "bar.sync" not in compiled.asm["ptx"]
