import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.lj import LennardJones as Reference
from torch import nn

import cliffordstf
from cliffordstf.data.batch import Batch, make_batch
from cliffordstf.data.structure import Structure
from cliffordstf.errors import ConfigError
from cliffordstf.model.output import ModelOutput
from cliffordstf.model.potential import Potential
from cliffordstf.verify.structures import random_cluster


class LennardJones(nn.Module):
    """Any energy model will do: ε = 1, σ = 2.5, half of each pair's energy to either atom."""

    def forward(self, batch: Batch, species: torch.Tensor) -> ModelOutput:
        x = (2.5 / batch.vectors().norm(dim=1)) ** 6
        energies = torch.zeros(len(species), dtype=x.dtype).index_add(0, batch.receivers, 2 * (x * x - x))
        return ModelOutput(energies)


@pytest.fixture
def argon() -> Potential:
    return Potential(LennardJones(), elements=(18,), cutoff=6.0)


def test_any_energy_model_gets_forces_and_stress(argon):
    atoms = bulk("Ar", "fcc", a=3.8) * (2, 2, 2)
    atoms.rattle(0.1, seed=0)
    atoms.calc = Reference(epsilon=1.0, sigma=2.5, rc=6.0, smooth=False)
    found = argon.predict(atoms)
    shift = 4 * ((2.5 / 6.0) ** 12 - (2.5 / 6.0) ** 6)  # ASE shifts the pair energy to zero at the cutoff
    pairs = len(argon.batch(atoms).senders) / 2
    assert found.energy[0].item() == pytest.approx(atoms.get_potential_energy() + pairs * shift, rel=1e-10)
    np.testing.assert_allclose(found.forces, atoms.get_forces(), atol=1e-10)
    np.testing.assert_allclose(found.stress[0], atoms.get_stress(voigt=False), atol=1e-12)


def test_stress_of_a_molecule_is_nan_beside_a_crystal(argon):
    batch = argon.batch([bulk("Ar", "fcc", a=3.8), Atoms("Ar")])
    stress = argon(batch, stress=True).stress
    assert torch.isfinite(stress[0]).all()
    assert torch.isnan(stress[1]).all()


def test_double_precision_in_and_out_with_a_single_precision_core():
    potential = cliffordstf.build("default", elements=["H", "C", "O"], seed=0)
    prediction = potential.predict(molecule("CH3CH2OH"))
    assert next(potential.parameters()).dtype == torch.float32
    assert prediction.energy.dtype == prediction.forces.dtype == torch.float64
    exact = potential.double().predict(molecule("CH3CH2OH"))
    torch.testing.assert_close(prediction.forces, exact.forces, rtol=1e-4, atol=1e-5)


def test_reference_energies_stay_exact_in_float32():
    e0 = {1: -13.6057, 8: -2042.123456789012}
    potential = cliffordstf.build("default", elements=["H", "O"], seed=0, atomic_energies=e0, energy_scale=0.25)
    plain = cliffordstf.build("default", elements=["H", "O"], seed=0)
    potential = potential.float().double().float()
    difference = potential.predict(molecule("H2O")).energy - 0.25 * plain.predict(molecule("H2O")).energy
    assert difference.item() == pytest.approx(2 * e0[1] + e0[8], abs=1e-9)
    torch.testing.assert_close(potential.predict(molecule("H2O")).forces, 0.25 * plain.predict(molecule("H2O")).forces)


def test_reference_energies_are_saved_with_the_weights():
    potential = cliffordstf.build("default", elements=["H"], atomic_energies={1: -13.6})
    other = cliffordstf.build("default", elements=["H"])
    other.load_state_dict(potential.state_dict())
    assert other.reference.energies.tolist() == [-13.6]


def test_atomic_energies_add_up():
    potential = cliffordstf.build("paper/full", elements=["H", "C", "O"], seed=0)
    batch = potential.batch([molecule("CH3CH2OH"), molecule("H2O")])
    prediction = potential(batch)
    sums = torch.zeros(2, dtype=torch.float64).index_add(0, batch.structure_of_atom, prediction.atom_energies)
    torch.testing.assert_close(sums, prediction.energy)


def test_training_graph_reaches_weights_through_forces_and_stress():
    potential = cliffordstf.build("default/small", elements=["Cu"], seed=0)
    prediction = potential(potential.batch(bulk("Cu")), stress=True, train=True)
    (prediction.forces.square().sum() + prediction.stress.square().sum()).backward()
    assert all(p.grad is not None for p in potential.model.layers[0].parameters())


def test_plain_evaluation_leaves_no_graph():
    potential = cliffordstf.build("default/small", elements=["Cu"], seed=0)
    prediction = potential.predict(bulk("Cu"))
    assert not any(x.requires_grad for x in (prediction.energy, prediction.forces, prediction.stress))
    with torch.no_grad():
        inside = potential.predict(bulk("Cu"))
    torch.testing.assert_close(inside.forces, prediction.forces)


def test_batch_with_too_short_a_cutoff_is_refused():
    potential = cliffordstf.build("default/small", elements=["Cu"])
    with pytest.raises(ConfigError, match=r"neighbours up to 3\.0 Å but the potential needs 5\.0 Å"):
        potential(make_batch(bulk("Cu"), cutoff=3.0))


def test_longer_neighbour_list_changes_nothing():
    """Edges beyond the cutoff, as a list with a skin has them, carry nothing in the default model."""
    potential = cliffordstf.build("default/small", elements=["Cu"], seed=0).double()
    exact, skinned = potential(potential.batch(bulk("Cu"))), potential(make_batch(bulk("Cu"), cutoff=7.0))
    torch.testing.assert_close(exact.energy, skinned.energy, rtol=1e-12, atol=1e-12)


def test_model_without_force_head_says_so(argon):
    argon.force_mode = "direct"
    with pytest.raises(ConfigError, match="no force head"):
        argon.predict(bulk("Ar", "fcc", a=3.8))


def test_a_mean_over_atoms_does_not_grow_with_the_structure():
    structure = random_cluster((1, 6, 8), atoms=5)
    energies = {1: -1.0, 6: -2.0, 8: -3.0}
    options = {"elements": (1, 6, 8), "seed": 0, "channels": 8, "atomic_energies": energies}
    total, mean = (cliffordstf.build("default", pooling=kind, **options).double() for kind in ("sum", "mean"))
    far = Structure(np.tile(structure.numbers, 2), np.concatenate([structure.positions, structure.positions + 100.0]))
    one, two = (mean.predict(each, stress=False) for each in (structure, far))
    torch.testing.assert_close(one.energy, two.energy)
    torch.testing.assert_close(one.energy, total.predict(structure, stress=False).energy / 5)
    torch.testing.assert_close(one.forces, total.predict(structure, stress=False).forces / 5)
