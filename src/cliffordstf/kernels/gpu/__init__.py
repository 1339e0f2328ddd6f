"""The operators on a GPU: kernels that Triton compiles from source text, which is generated from a plan.

Importing this package does not import Triton: `available` and the first kernel do.
"""

import importlib
import os

import torch

from cliffordstf.kernels.gpu.convolution import EdgeConvolution
from cliffordstf.kernels.gpu.edge import EdgeTrilinear
from cliffordstf.kernels.gpu.node import NodeBilinear

__all__ = ["EdgeConvolution", "EdgeTrilinear", "NodeBilinear", "available"]


def available() -> bool:
    """Whether kernels can run: Triton is there and has a GPU to compile for, or is told to interpret on the CPU."""
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    try:
        importlib.import_module("triton")
    except ImportError:
        return False
    return True
