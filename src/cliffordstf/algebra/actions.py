"""How O(3) acts on tracks and features: what every equivariance test and proof is written with."""

import torch
from torch import Tensor

from cliffordstf.algebra import clifford, stf
from cliffordstf.algebra.tracks import BIVECTOR, Layout, Track


def random_rotation(generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """A rotation matrix (3, 3) drawn uniformly from SO(3), from a uniform unit quaternion."""
    q = torch.randn(4, generator=generator, dtype=torch.float64)
    w, x, y, z = (q / q.norm()).tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ],
        dtype=dtype,
    )


def track_action(track: Track, matrix: Tensor) -> Tensor:
    """Matrix (2l+1, 2l+1) by which an element of O(3) acts on the stored components of a track.

    Args:
        track: The track; its parity decides the sign under improper elements.
        matrix: Orthogonal (3, 3), of determinant +1 or -1.
    """
    improper = bool(torch.linalg.det(matrix) < 0)
    rotation = -matrix if improper else matrix
    identity = torch.eye(track.dims, dtype=matrix.dtype)
    if track == BIVECTOR:
        columns = clifford.axial_to_bivector(rotation @ clifford.bivector_to_axial(identity))
    else:
        full = stf.to_cartesian(identity, track.degree)
        for axis in range(track.degree):
            full = torch.tensordot(rotation, full, dims=([1], [axis])).movedim(0, axis)
        columns = stf.from_cartesian(full, track.degree)
    return columns * (track.parity if improper else 1)


def act(features: Tensor, layout: Layout, matrix: Tensor) -> Tensor:
    """Rotate or reflect a feature (atoms, components, channels) by an element of O(3)."""
    return torch.cat([track_action(track, matrix) @ layout.take(features, track) for track in layout], dim=1)
