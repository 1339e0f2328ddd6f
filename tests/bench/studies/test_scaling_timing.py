import pytest

from cliffordstf.bench.jobs.sweep import Sweep, read_results
from cliffordstf.bench.studies import scaling_timing as module
from cliffordstf.bench.studies.scaling import FAMILIES
from cliffordstf.bench.studies.scaling_timing import PARTS, ScalingTiming, scaling_timing

TINY = ("model.hidden=4", "batch_size=4", "data.valid=4")


def test_both_sizes_are_timed_in_turn_with_and_without_the_optimiser(clusters, tmp_path):
    job = scaling_timing(str(clusters), "default", overrides=(*TINY, "model.channels=4"), label="tiny")
    wide = job.large.model_copy(update={"model": {**job.large.model, "channels": 64}})
    quick = ScalingTiming(job.name, job.labels, job.small, wide, rounds=5, limit=5.0)
    sweep = Sweep(tmp_path / "results", tmp_path / "work")
    assert sweep.run([quick], lambda _: None).is_done
    (result,) = read_results(sweep.results)
    assert (result["small"], result["large"]) == ("default/1m tiny", "default/10m tiny")
    assert set(result["seconds"]) == {f"{size} {part}" for size in ("small", "large") for part in PARTS}
    assert all(times["rounds"] >= 5 and times["median"] > 0 for times in result["seconds"].values())
    assert all(result["ratios"][part]["median"] > 0 for part in PARTS)
    assert result["parameters"][0] < result["parameters"][1]
    assert result["structures_a_step"] == [4, 4]
    assert result["command"]


def test_a_gradient_leaves_the_weights_alone_and_an_update_does_not(clusters, tmp_path):
    job = scaling_timing(str(clusters), "default", overrides=(*TINY, "model.channels=4"))
    trainer = module._trainer(job.small, tmp_path)
    update, gradient = module._parts(trainer)
    weights = [weight.detach().clone() for weight in trainer.potential.parameters()]

    def moved() -> bool:
        return any((a != b).any() for a, b in zip(weights, trainer.potential.parameters(), strict=True))

    gradient()
    assert not moved()
    update()
    assert moved()
    assert list(tmp_path.glob("*.ckpt")) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_name_that_suits_a_file(clusters, family):
    job = scaling_timing(str(clusters), family)
    assert job.name == f"scaling-clusters-time-of-{family}"
