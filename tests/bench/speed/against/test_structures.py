import ase.io
import numpy as np

from cliffordstf.bench.speed.against.structures import APART, MOLECULES, labelled, write_inputs


def test_labels_are_those_of_springs():
    """The energy's slope along the displacement, from two states that differ by their seeds only in the springs."""
    for make in MOLECULES.values():
        at_rest = np.mean([make(seed).positions for seed in range(400)], axis=0)
        found = labelled(make, 7)
        moved = found.positions - at_rest
        np.testing.assert_allclose(found.get_forces(), -10.0 * moved, atol=0.15)
        assert np.isclose(found.get_potential_energy(), 5.0 * (moved**2).sum(), rtol=0.2)


def test_files_hold_what_their_names_tell(tmp_path):
    inputs = write_inputs(tmp_path, 5, (32,))
    assert len(ase.io.read(inputs.molecules["ethanol"].one)) == 9
    many = ase.io.read(inputs.molecules["aspirin"].many)
    assert len(many) == 5 * 21
    between = np.linalg.norm(many.positions[:21, None] - many.positions[None, 21:], axis=2)
    assert between.min() > APART - 10.0
    assert len(ase.io.read(inputs.molecules["ethanol"].data, ":")) == 256
    (size,) = inputs.boxes
    assert ase.io.read(inputs.boxes[size]).pbc.all()
    assert len(ase.io.read(inputs.boxes[size])) == size
