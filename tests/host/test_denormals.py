import pytest
import torch

from cliffordstf.host.denormals import flushes_denormals, without_denormals


@pytest.fixture(params=[True, False])
def before(request):
    """Both settings that a caller may have."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot take denormal numbers for zero")
    torch.set_flush_denormal(request.param)
    yield request.param
    torch.set_flush_denormal(False)


def test_within_the_block_denormals_are_zero_and_the_callers_setting_comes_back(before):
    assert flushes_denormals() == before
    with without_denormals():
        assert float(torch.tensor(1e-38) * 0.1) == 0.0
        assert float(torch.tensor(1e-37) * 1.0) > 0.0
    assert flushes_denormals() == before
    assert (float(torch.tensor(1e-38) * 0.1) == 0.0) == before


def test_it_comes_back_after_an_error_too(before):
    @without_denormals()
    def fail() -> None:
        raise ValueError("wanted")

    with pytest.raises(ValueError, match="wanted"):
        fail()
    assert flushes_denormals() == before
