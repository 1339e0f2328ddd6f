from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from cliffordstf.report.energies import shown_energies
from cliffordstf.report.parity import draw_energy_parity
from cliffordstf.train.evaluation import Evaluation
from tests.report import samples


@pytest.fixture(scope="module")
def mixed() -> Evaluation:
    """Total energies of up to −180,000 eV, of molecules, crystals and isolated atoms."""
    return samples.with_total_energies(samples.evaluation(samples.config_type_frames(8)))


@pytest.fixture(scope="module")
def ethanol() -> Evaluation:
    found = samples.evaluation(samples.molecule_frames(12))
    return samples.with_total_energies(replace(found, energy=found.energy - 30, energy_label=found.energy_label - 30))


def labels(evaluation: Evaluation) -> tuple[str, str, str]:
    """Of the axes, and the text in the corner."""
    axes = Figure().add_subplot()
    draw_energy_parity(axes, evaluation)
    return axes.get_xlabel(), axes.get_ylabel(), axes.texts[0].get_text()


def test_isolated_atoms_are_subtracted_and_nothing_else(mixed: Evaluation) -> None:
    shown = shown_energies(mixed)
    assert shown is not None
    assert (shown.without, shown.unit, shown.mean) == ("isolated atoms", "eV/atom", None)
    without = (mixed.energy_label - mixed.reference_energy) / mixed.atoms_per_structure
    np.testing.assert_allclose(shown.label, without)
    assert float(np.ptp(shown.label)) < 10 < float(np.ptp(mixed.energy_label / mixed.atoms_per_structure))
    assert labels(mixed)[:2] == (
        "reference energy − isolated atoms (eV/atom)",
        "predicted energy − isolated atoms (eV/atom)",
    )


def test_cohesive_energies_of_one_molecule_are_not_shifted(ethanol: Evaluation) -> None:
    shown = shown_energies(ethanol)
    assert shown is not None
    assert shown.mean is None
    assert shown.label.mean() == pytest.approx(-30 / 9, abs=1)


def test_an_offset_that_would_hide_the_spread_is_subtracted_and_stated(ethanol: Evaluation) -> None:
    rng = np.random.default_rng(0)
    nearly_equal = ethanol.reference_energy - 30 + 1e-3 * rng.normal(size=12)
    found = replace(ethanol, energy_label=nearly_equal, energy=nearly_equal + 1e-4)
    shown = shown_energies(found)
    assert shown is not None
    assert (shown.without, shown.unit) == ("isolated atoms − mean", "meV/atom")
    assert shown.mean == pytest.approx(-30 / 9, abs=1e-3)
    assert "mean −3.333 eV/atom" in labels(found)[2]


def test_without_references_structures_of_one_composition_are_relative_to_their_mean(ethanol: Evaluation) -> None:
    for reference in (None, np.zeros(12)):
        found = replace(ethanol, reference_energy=reference)
        shown = shown_energies(found)
        assert shown is not None
        per_atom = found.energy_label / 9
        np.testing.assert_allclose(shown.label, 1000 * (per_atom - per_atom.mean()), atol=1e-6)
        assert labels(found)[0] == "reference energy − mean (meV/atom)"
        assert f"mean −{-per_atom.mean():,.3f} eV/atom" in labels(found)[2]


@pytest.mark.parametrize("factor", [None, 0.5])
def test_composition_never_dominates(mixed: Evaluation, factor: float | None) -> None:
    """Neither without isolated atoms nor with those of another method."""
    assert mixed.reference_energy is not None
    reference = None if factor is None else factor * mixed.reference_energy
    found = replace(mixed, reference_energy=reference)
    shown = shown_energies(found)
    assert shown is not None
    assert shown.without == "fit per element"
    assert float(np.abs(shown.label).max()) < 10
    error = (mixed.energy - mixed.energy_label) / mixed.atoms_per_structure
    unit = 1.0 if shown.unit == "eV/atom" else 1000.0
    np.testing.assert_allclose(shown.found - shown.label, unit * error, atol=1e-6 * unit)


def test_a_fit_without_error_is_not_shown(mixed: Evaluation) -> None:
    """Two structures of two compositions: a fit per element would put both at zero."""
    frames = [*samples.molecule_frames(1), *samples.crystal_frames(1)]
    found = samples.with_total_energies(samples.evaluation(frames))
    shown = shown_energies(replace(found, reference_energy=None))
    assert shown is not None
    assert shown.without == "mean"
    assert float(np.ptp(shown.label)) > 1


def test_fitted_references_leave_energies_around_zero(ethanol: Evaluation) -> None:
    """As a least-squares fit gives them: the offset is gone already, so that nothing is shifted."""
    found = replace(ethanol, reference_energy=np.full(12, ethanol.energy_label.mean()))
    shown = shown_energies(found)
    assert shown is not None
    assert (shown.without, shown.unit) == ("isolated atoms", "meV/atom")
    assert shown.label.mean() == pytest.approx(0, abs=1e-6)


def test_energies_that_are_missing_or_not_finite_are_left_out(mixed: Evaluation) -> None:
    label, energy = mixed.energy_label.copy(), mixed.energy.copy()
    label[0], energy[1] = np.nan, np.inf
    shown = shown_energies(replace(mixed, energy=energy, energy_label=label))
    assert shown is not None
    assert len(shown.label) == len(label) - 2
    assert np.isfinite(shown.found).all()
    assert shown_energies(replace(mixed, energy_label=np.full_like(label, np.nan))) is None
