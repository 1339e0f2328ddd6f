import json

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from cliffordstf.data.structure import Structure
from cliffordstf.report.scene import as_script_data, scene
from cliffordstf.report.worst import structure_errors
from cliffordstf.train.evaluation import Evaluation
from cliffordstf.train.metrics import force_cosines
from tests.report import samples


def unlabelled(atoms: Atoms) -> Evaluation:
    return samples.evaluation([samples.Frame(Structure.from_ase(atoms))])


def test_errors_by_structure_match_a_plain_loop() -> None:
    frames = samples.molecule_frames(4) + samples.without_forces(samples.molecule_frames(1))
    found = samples.evaluation(frames)
    errors = structure_errors(found)
    for index in range(4):
        here = found.structure_of_atom == index
        difference = found.forces[here] - found.force_labels[here]
        assert errors.force_mae[index] == pytest.approx(1000 * np.abs(difference).mean())
        assert errors.force_worst[index] == pytest.approx(1000 * np.linalg.norm(difference, axis=1).max())
        assert errors.energy_per_atom[index] == pytest.approx(
            1000 * (found.energy[index] - found.energy_label[index]) / here.sum()
        )
    assert np.isnan(errors.force_mae[4])
    order = errors.worst_first()
    assert len(order) == 4
    assert (np.diff(errors.force_mae[order]) <= 0).all()


def test_worst_by_energy_without_forces() -> None:
    found = samples.evaluation(samples.without_forces(samples.molecule_frames(5)))
    order = structure_errors(found).worst_first()
    size = np.abs(found.energy - found.energy_label)
    assert order.tolist() == np.argsort(-size).tolist()


def test_a_prediction_that_is_not_finite_makes_its_structure_the_worst() -> None:
    found = samples.evaluation(samples.molecule_frames(5))
    found.forces[9 * 3 + 2, 1] = np.nan
    found.energy[1] = np.nan
    found.energy_label[2] = np.nan
    errors = structure_errors(found)
    assert errors.worst_first()[0] == 3
    assert len(errors.worst_first()) == 5
    assert np.flatnonzero(np.isinf(errors.force_mae)).tolist() == [3]
    assert np.flatnonzero(np.isinf(errors.force_cosine)).tolist() == [3]
    assert np.flatnonzero(np.isinf(errors.energy)).tolist() == [1]
    assert np.flatnonzero(np.isnan(errors.energy)).tolist() == [2]


def test_the_cosine_of_a_structure_leaves_out_atoms_without_a_true_force() -> None:
    found = samples.evaluation(samples.molecule_frames(3))
    before = structure_errors(found).force_cosine
    found.force_labels[9:12] = 0.0
    found.force_labels[18:] = 1e-4
    cosine = structure_errors(found).force_cosine
    expected = force_cosines(found)[12:18].mean()
    assert cosine[0] == before[0]
    assert cosine[1] == pytest.approx(expected)
    assert np.isnan(cosine[2])


def test_bonds_of_a_molecule() -> None:
    drawn = scene(unlabelled(molecule("CH3CH2OH")), 0, "ethanol")
    assert len(drawn["bonds"]) == 8
    assert drawn["stubs"] == []
    assert drawn["box"] == []
    assert drawn["true"] == [None] * 9


def test_bonds_across_the_boundary_and_box() -> None:
    silicon = bulk("Si", cubic=True)
    silicon.positions += [17.0, -3.0, 0.5]
    drawn = scene(unlabelled(silicon), 0, "silicon")
    # Four bonds an atom: a bond inside counts for two atoms, a stub for one.
    assert 2 * len(drawn["bonds"]) + len(drawn["stubs"]) == 4 * 8
    assert len(drawn["box"]) == 12
    inside = np.array(drawn["positions"]) / silicon.cell[0, 0]
    assert inside.min() > -0.05
    assert inside.max() < 1.05


def test_box_of_a_slab_has_four_edges() -> None:
    slab = Atoms("Cu", cell=[2.5, 2.5, 20.0], pbc=[True, True, False])
    assert len(scene(unlabelled(slab), 0, "slab")["box"]) == 4


@pytest.mark.parametrize("atoms", [molecule("CH3CH2OH"), molecule("C2H2"), Atoms("H"), bulk("Cu")])
def test_first_view_is_a_rotation(atoms: Atoms) -> None:
    view = np.array(scene(unlabelled(atoms), 0, "x")["view"])
    assert np.allclose(view @ view.T, np.eye(3), atol=1e-3)
    assert np.linalg.det(view) == pytest.approx(1, abs=1e-3)


def test_script_data_cannot_end_its_element() -> None:
    value = {"name": "</script><!-- & ü"}
    text = as_script_data(value)
    assert "<" not in text
    assert json.loads(text) == value
    with pytest.raises(ValueError, match="JSON"):
        as_script_data(float("nan"))
