"""Energies per element that wrong labels and rare elements do not spoil; the baseline that is made of them."""

from dataclasses import replace

import numpy as np
import pytest

from cliffordstf.data.baseline import PER_ATOM, PER_STRUCTURE, Baseline, fit_baseline
from cliffordstf.data.composition import fit_composition
from cliffordstf.data.frame import Frame
from cliffordstf.data.inspection import inspect_frames
from cliffordstf.data.readers import read_frames
from cliffordstf.data.structure import Structure

E0 = {1: -1.1, 6: -1.3, 8: -1.9}


def frame(numbers: list[int], energy: float) -> Frame:
    return Frame(Structure(numbers, np.arange(3.0 * len(numbers)).reshape(-1, 3)), energy=energy)


def molecules(count: int, scatter: float = 0.1) -> list[Frame]:
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        numbers = random.choice([1, 6, 8], size=random.integers(3, 9)).tolist()
        cohesion = -4.0 * len(numbers)
        found.append(frame(numbers, sum(E0[n] for n in numbers) + cohesion + scatter * random.normal()))
    return found


def test_one_wrong_energy_changes_nothing():
    frames = molecules(60)
    clean = fit_composition(frames, (1, 6, 8))
    assert len(clean.out_of_line) == 0
    for energy in (1e6, -1e6, 500.0):
        frames[17] = replace(frames[17], energy=energy)
        spoiled = fit_composition(frames, (1, 6, 8))
        assert spoiled.out_of_line.tolist() == [17]
        assert spoiled.energies == pytest.approx(clean.energies, abs=0.02)


@pytest.mark.parametrize("molecule", ["ethanol", "aspirin"])
def test_one_wrong_energy_of_one_composition(real_data, molecule):
    """What made hydrogen +791 eV once."""
    frames, _ = read_frames(real_data / "rmd17" / f"rmd17_{molecule}_train_01.npz")
    elements = (1, 6, 8)
    clean = fit_composition(frames, elements)
    frames[3] = replace(frames[3], energy=1e6)
    assert fit_composition(frames, elements).energies == pytest.approx(clean.energies, abs=1e-3)
    # All-electron energies of single atoms are known roughly, so even one composition gives sensible ones.
    assert clean.energies[1] == pytest.approx(-13.6, abs=1.5)
    assert clean.energies[8] == pytest.approx(-2041, rel=0.03)


def test_rare_elements_stay_where_the_others_are(real_data):
    """Least squares alone gave Cs +90 eV here."""
    frames, _ = read_frames(real_data / "mptrj" / "mptrj-random-1k.xyz")
    elements = sorted({int(number) for f in frames for number in f.structure.numbers})
    fit = fit_composition(frames, elements)
    assert fit.energies[55] == pytest.approx(-3.6, abs=1.5)
    assert min(fit.energies.values()) > -20
    assert max(fit.energies.values()) < 8
    per_atom = [(f.energy - value) / len(f.structure) for f, value in zip(frames, fit.of(frames), strict=True)]
    assert abs(np.mean(per_atom)) < 1e-3


def test_an_element_that_only_a_wrong_label_holds():
    frames = [*molecules(40), frame([16, 1, 1], 1e6)]
    fit = fit_composition(frames, (1, 6, 8, 16))
    assert fit.out_of_line.tolist() == [40]
    assert abs(fit.energies[16]) < 20


def test_energies_far_from_each_other_are_not_drawn_together():
    """Pseudopotentials that keep inner electrons: energies of elements differ by thousands of eV."""
    random = np.random.default_rng(1)
    free = {1: -13.6, 8: -430.0, 26: -3400.0, 79: -4800.0}
    frames = []
    for _ in range(80):
        numbers = random.choice(list(free), size=6).tolist()
        frames.append(frame(numbers, sum(free[n] for n in numbers) + 0.5 * random.normal()))
    fit = fit_composition(frames, tuple(free))
    assert fit.energies == pytest.approx(free, abs=0.5)


def test_a_second_population_is_none_of_outliers():
    frames = molecules(40)
    shifted = [replace(f, energy=f.energy + 50.0) if i % 4 == 0 else f for i, f in enumerate(frames)]
    assert len(fit_composition(shifted, (1, 6, 8)).out_of_line) == 0


def test_the_baseline_is_one_number_everywhere(real_data):
    frames, source = read_frames(real_data / "rmd17" / "rmd17_ethanol_test_01.npz")
    baseline = fit_baseline(frames)
    error = 1000 * np.abs(baseline(frames) - [f.energy for f in frames]).mean()
    assert error == pytest.approx(141.1, abs=0.1)
    assert inspect_frames(frames, source).baseline.energy_mae_mev == pytest.approx(error)
    with_atoms = [*frames, *(frame([number], -2.0) for number in (1, 6, 8))]
    assert fit_baseline(with_atoms)(frames) == pytest.approx(baseline(frames))


def test_kinds_of_baselines():
    few = [frame([1, 1], 1.0), frame([6, 8], 3.0), frame([6, 6, 1], -2.0)]
    assert fit_baseline(few).kind == PER_ATOM
    relative = fit_baseline(molecules(30), relative=True)
    assert relative.kind == PER_STRUCTURE
    assert np.ptp(relative(molecules(30))) == 0
    assert Baseline.from_json(relative.as_json()) == relative
    assert np.isnan(fit_baseline(few)([frame([79, 79], 0.0)])).all()
    assert fit_baseline([frame([1, 1], np.nan)]).energies == {1: 0.0}
