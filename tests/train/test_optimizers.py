import pytest
import torch

from cliffordstf.kernels.native.library import library
from cliffordstf.train import optimizers
from cliffordstf.train.config import OptimizerConfig, ScheduleConfig
from cliffordstf.train.optimizers import Fading, Muon, Schedule, make_optimizer, orthogonal_factor


@pytest.mark.parametrize("shape", [(4, 6, 6), (3, 4, 9), (2, 9, 4)])
def test_the_orthogonal_factor_has_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(orthogonal_factor(matrices))
    assert ((values > 0.6) & (values < 1.3)).all()
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    overlap = (orthogonal_factor(matrices) * (left @ right)).sum(dim=(1, 2)) / min(shape[1:])
    assert (overlap > 0.8).all()


# A short exponential to 0.005 would need a larger decay than there may be.
@pytest.mark.parametrize(("kind", "final"), [("cosine", 0.005), ("exponential", 0.3), ("constant", 0.005)])
@pytest.mark.parametrize("name", ["muon", "adamw"])
@pytest.mark.parametrize("steps", [2500, 5000])
def test_fading_is_the_same_for_short_and_long_runs(kind, final, name, steps):
    """A weight without gradient shrinks by exp(-60 / sqrt(structures · atoms)) over a run."""
    weight = torch.nn.Parameter(torch.ones(3, 3, dtype=torch.float64))
    config = OptimizerConfig(name=name)
    schedule = ScheduleConfig(kind=kind, warmup_steps=0, final=final)
    optimizer = make_optimizer(config, 5e-3, [weight])
    fading = Fading(config, 5e-3, schedule, structures=10, atoms=1440)
    rates = Schedule(schedule, 5e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rates.rate(step, step / steps)
        fading.apply(optimizer, 1 / steps)
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.full_like(weight, 0.60653), rtol=0, atol=2e-3)


def test_an_exponential_falls_by_the_same_factor_in_equal_parts_of_a_run():
    schedule = Schedule(ScheduleConfig(kind="exponential", final=0.01, warmup_steps=0), peak=2.0)
    assert [schedule.rate(9, share) for share in (0.0, 0.5, 1.0)] == pytest.approx([2.0, 0.2, 0.02])
    with pytest.raises(ValueError, match="never gets to zero"):
        ScheduleConfig(kind="exponential", final=0.0)


def test_a_short_run_fades_less():
    weight = torch.nn.Parameter(torch.ones(3, 3))
    optimizer = make_optimizer(OptimizerConfig(), 5e-3, [weight])
    Fading(OptimizerConfig(), 5e-3, ScheduleConfig(), structures=5, atoms=100).apply(optimizer, 1 / 240)
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def test_many_data_hardly_fade_and_few_no_more_than_by_e():
    config, schedule = OptimizerConfig(), ScheduleConfig()
    assert Fading(config, 5e-3, schedule, structures=1000, atoms=36_000).total == pytest.approx(0.01)
    assert Fading(config, 5e-3, schedule, structures=1, atoms=1).total == 1.0
    assert Fading(OptimizerConfig(weight_decay=0.3), 5e-3, schedule, structures=1, atoms=1).total is None
    assert Fading(OptimizerConfig(name="adam"), 5e-3, schedule, structures=1, atoms=1).total is None


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-4), (torch.float64, 1e-12)])
def test_the_compiled_update_is_that_of_plain_pytorch(monkeypatch, dtype, tolerance):
    if library(dtype) is None:
        pytest.skip("there is no compiler")
    shapes = [(6, 6), (5, 31, 48), (3, 20, 7), (48, 16), (9,), (2, 1)]
    results = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(optimizers, "can_update", lambda _: False)
        generator = torch.Generator().manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes]
        optimizer = Muon(weights, lr=0.05, weight_decay=0.3)
        for _ in range(4):
            for weight in weights:
                weight.grad = torch.randn(weight.shape, generator=generator, dtype=dtype)
            optimizer.step()
        results.append([*weights, *(optimizer.state[weight]["first"] for weight in weights)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=tolerance, atol=tolerance)


def test_gradients_in_any_order_of_memory_are_taken():
    weight = torch.nn.Parameter(torch.zeros(4, 6))
    weight.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).mT
    Muon([weight], lr=1.0).step()
    factor = orthogonal_factor(weight.grad[None])[0]
    torch.testing.assert_close(weight.detach(), -0.2 * 6**0.5 * factor, rtol=1e-4, atol=1e-5)


def test_the_rate_rises_over_steps_or_over_a_share_of_a_run_that_is_too_short_for_them():
    schedule = Schedule(ScheduleConfig(kind="constant"), peak=2.0)
    assert schedule.rate(9, 0.0) == pytest.approx(2.0 * 10 / 101)
    assert schedule.rate(9, 0.025) == pytest.approx(1.0)
    assert schedule.rate(9, 0.05) == 2.0
    assert schedule.rate(200, 0.001) == 2.0
    patient = Schedule(ScheduleConfig(kind="constant", warmup_share=None), peak=2.0)
    assert patient.rate(9, 0.9) == pytest.approx(2.0 * 10 / 101)
