"""Leave out frames that say nothing new."""

import numpy as np
from ase import Atoms

from cliffordstf.data.structure import FloatArray


def fingerprint(atoms: Atoms) -> FloatArray:
    """All interatomic distances, Å, sorted within each pair of elements: the same however a molecule lies in space."""
    distances = atoms.get_all_distances(mic=bool(atoms.pbc.any()))
    i, j = np.triu_indices(len(atoms), k=1)
    low = np.minimum(atoms.numbers[i], atoms.numbers[j])
    high = np.maximum(atoms.numbers[i], atoms.numbers[j])
    order = np.lexsort((distances[i, j], high, low))
    return np.asarray(distances[i, j][order], dtype=np.float64)


class SeenFrames:
    """Remembers the fingerprints of frames.

    Args:
        tolerance: Å, root mean square difference of fingerprints below which two frames are the same.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self._fingerprints: dict[str, list[FloatArray]] = {}

    def add_if_new(self, atoms: Atoms) -> bool:
        """Whether no earlier frame of this composition is within the tolerance; if so, the frame is remembered."""
        found = fingerprint(atoms)
        earlier = self._fingerprints.setdefault(atoms.get_chemical_formula(), [])
        if earlier and len(found):
            differences = np.sqrt(np.mean((np.array(earlier) - found) ** 2, axis=1))
            if float(differences.min()) < self.tolerance:
                return False
        elif earlier:
            return False
        earlier.append(found)
        return True
