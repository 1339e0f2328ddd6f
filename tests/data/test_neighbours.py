import time

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import read
from ase.neighborlist import neighbor_list

from cliffordstf.data.batch import make_batch
from cliffordstf.data.neighbours import edge_vectors, neighbour_list
from cliffordstf.data.structure import Structure
from cliffordstf.errors import StructureError
from cliffordstf.verify.structures import triclinic_crystal

RNG = np.random.default_rng(3)


def random_cell(pbc) -> Structure:
    cell = np.eye(3) * RNG.uniform(2.5, 6, 3) + RNG.normal(scale=0.8, size=(3, 3))
    positions = RNG.uniform(-1, 2, size=(6, 3)) @ cell
    return Structure(np.full(6, 14), positions, cell, np.array(pbc))


STRUCTURES = {
    "molecule": Structure.from_ase(molecule("C6H6")),
    "small cubic": Structure.from_ase(bulk("Cu", "fcc", a=3.6)),
    "triclinic": triclinic_crystal((1, 6, 8)),
    "left-handed": Structure(np.array([6, 8]), np.array([[0, 0, 0], [1.1, 0.2, 3.0]]), np.diag([3.1, 4.0, -2.4]), True),
    "slab": random_cell([True, True, False]),
    "wire": random_cell([False, True, False]),
    "bulk, atoms outside": random_cell([True, True, True]),
    "slab without c": Structure(
        np.array([6, 6]),
        np.array([[0, 0, 0], [1.2, 0, 40.0]]),
        [[2.5, 0, 0], [0, 2.5, 0], [0, 0, 0]],
        [True, True, False],
    ),
    "one atom": Structure(np.array([18]), np.zeros((1, 3))),
}


def edge_set(receivers, senders, shifts) -> set[tuple[int, ...]]:
    return {(int(i), int(j), *map(int, s)) for i, j, s in zip(receivers, senders, shifts, strict=True)}


@pytest.mark.parametrize("backend", ["vesin", "torch"])
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("cutoff", [3.0, 6.5])
def test_edges_equal_those_of_ase(name, backend, cutoff):
    structure = STRUCTURES[name]
    edges = neighbour_list(structure, cutoff, backend)
    atoms = Atoms(structure.numbers, structure.positions, cell=structure.full_cell(), pbc=structure.pbc)
    assert edge_set(edges.receivers, edges.senders, edges.shifts) == edge_set(*neighbor_list("ijS", atoms, cutoff))
    assert (np.diff(edges.receivers) >= 0).all()
    distances = np.linalg.norm(edge_vectors(structure.positions, structure.cell, edges), axis=1)
    assert (distances < cutoff).all()


@pytest.mark.parametrize("name", STRUCTURES)
def test_backends_agree_to_the_order_of_edges(name):
    first, second = (neighbour_list(STRUCTURES[name], 5.0, backend) for backend in ("vesin", "torch"))
    for field in ("senders", "receivers", "shifts"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))


def test_real_cells_equal_those_of_ase(real_data):
    """Skewed and left-handed cells of the Materials Project trajectories."""
    files = sorted((real_data / "mptrj").glob("*.extxyz")) + sorted((real_data / "mptrj").glob("*.xyz"))
    if not files:
        pytest.skip("no mptrj extxyz in the data folder")
    for atoms in read(files[0], index=":40"):
        structure = Structure.from_ase(atoms)
        edges = neighbour_list(structure, 5.0)
        assert edge_set(edges.receivers, edges.senders, edges.shifts) == edge_set(*neighbor_list("ijS", atoms, 5.0))


@pytest.mark.parametrize("backend", ["vesin", "torch"])
def test_atoms_on_the_same_spot_are_one_clear_error(backend):
    structure = Structure(np.array([1, 8, 1]), np.array([[0, 0, 0], [1.0, 0, 0], [1.0, 0, 1e-6]]), name="frame 7")
    with pytest.raises(StructureError, match=r"frame 7 has atoms 1 \(O\) and 2 \(H\) on the same spot"):
        neighbour_list(structure, 5.0, backend)


def test_image_on_the_same_spot_is_found():
    structure = Structure(np.array([1, 8]), np.array([[0, 0, 0], [3.0, 0, 0]]), np.diag([3.0, 4, 5]), True)
    with pytest.raises(StructureError, match="same spot"):
        neighbour_list(structure, 5.0)


def test_batch_is_sorted_and_csr(generator):
    batch = make_batch([STRUCTURES["molecule"], STRUCTURES["one atom"], STRUCTURES["triclinic"]], 5.0)
    assert (batch.receivers.diff() >= 0).all()
    counts = batch.receivers.bincount(minlength=len(batch.numbers))
    assert (batch.edges.row_pointers.diff() == counts).all()
    assert batch.edges.row_pointers[-1] == len(batch.senders)
    assert (batch.structure_of_atom[batch.senders] == batch.structure_of_atom[batch.receivers]).all()
    assert batch.atoms_per_structure().tolist() == [12, 1, 4]
    assert batch.elements == (1, 6, 8, 18)


@pytest.mark.parametrize(
    "structure",
    [
        Structure([14, 14], [[0, 0, 0], [1, 1, 1]], [[5, 0, 0], [5, 1e-4, 0], [0, 0, 5]], np.ones(3, bool)),
        Structure([14, 14], [[0, 0, 0], [1e-2, 0, 0]], 0.03 * np.eye(3), np.ones(3, bool)),
        Structure([14], [[0, 0, 0]], [[1e-5, 0, 0], [0, 1, 0], [0, 0, 1]], np.array([True, False, False])),
        Structure(np.full(2000, 14), np.random.default_rng(0).random((2000, 3))),
    ],
    ids=["flat", "tiny", "chain", "heap"],
)
def test_absurd_densities_are_refused_at_once(structure):
    start = time.monotonic()
    with pytest.raises(StructureError, match="no matter is as dense"):
        neighbour_list(structure, 6.0)
    assert time.monotonic() - start < 1
