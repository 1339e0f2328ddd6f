"""Processes that interpret GPU kernels, or compile them."""

from collections.abc import Iterator

import pytest

from tests.kernels.gpu import Run, process


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory) -> Iterator[Run]:
    with process(TRITON_INTERPRET="1", CLIFFORDSTF_CACHE=str(tmp_path_factory.mktemp("sources"))) as run:
        yield run


@pytest.fixture
def compiler(tmp_path) -> Iterator[Run]:
    with process(TRITON_INTERPRET="0", CLIFFORDSTF_CACHE=str(tmp_path), TRITON_CACHE_DIR=str(tmp_path)) as run:
        yield run
