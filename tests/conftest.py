import os
from pathlib import Path

import pytest
import torch

# The suite runs one worker per core; more threads per worker would only fight over them.
torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def data_directory() -> Path | None:
    """Real benchmark files: CLIFFORDSTF_TEST_DATA, or ../shared/data beside the repository."""
    root = Path(__file__).parents[1]
    given = os.environ.get("CLIFFORDSTF_TEST_DATA")
    path = Path(given) if given else root.parent / "shared" / "data"
    return path if path.is_dir() else None


@pytest.fixture
def real_data() -> Path:
    path = data_directory()
    if path is None:
        pytest.skip("no real data: set CLIFFORDSTF_TEST_DATA to a folder with the public benchmark files")
    return path
