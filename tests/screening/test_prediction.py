import numpy as np

from cliffordstf.data.structure import Structure
from cliffordstf.screening.prediction import batches


def test_batches_keep_the_order_and_the_limit():
    sizes = [3, 3, 3, 20, 1, 9, 1]
    structures = [Structure(np.ones(n), np.arange(3 * n).reshape(n, 3)) for n in sizes]
    found = list(batches(structures, 10))
    assert [[sizes[i] for i in range(len(sizes))[part]] for part in found] == [[3, 3, 3], [20], [1, 9], [1]]
