import pytest
import torch

import cliffordstf
from cliffordstf.errors import ConfigError
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ELEMENTS = (1, 6, 8)


def member(seed: int, **options) -> cliffordstf.Potential:
    return cliffordstf.build("default/small", elements=ELEMENTS, seed=seed, channels=4, **options).double()


def test_energy_forces_and_stress_are_means():
    members = [member(seed) for seed in range(3)]
    ensemble = Ensemble(members)
    batch = members[0].batch([random_cluster(ELEMENTS, atoms=6, seed=0), triclinic_crystal(ELEMENTS)])
    found = ensemble(batch, stress=True)
    alone = [potential(batch, stress=True) for potential in members]
    for name in ("energy", "atom_energies", "forces", "stress"):
        mean = sum(getattr(prediction, name) for prediction in alone) / 3
        torch.testing.assert_close(getattr(found, name), mean, equal_nan=True)
    assert ensemble(batch, forces=False).forces is None
    assert ensemble.cutoff == members[0].cutoff


def test_members_that_do_not_fit_together_are_refused():
    with pytest.raises(ConfigError, match="same cutoff"):
        Ensemble([member(0), member(1, cutoff=4.0)])
    with pytest.raises(ConfigError, match="at least one"):
        Ensemble([])
