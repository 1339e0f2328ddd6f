"""Tracks, the irreducible pieces of an atom's feature, and how they lie side by side in one tensor.

A feature is a tensor (atoms, components, channels): the components of all tracks follow each other along axis 1, the
channel axis is last and contiguous. The first four tracks together are a Cl(3,0) multivector in the basis
1, e1, e2, e3, e12, e13, e23, e123.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor


@dataclass(frozen=True)
class Track:
    """One irreducible piece of a feature.

    Attributes:
        name: How the track is called in configs and printed tables.
        degree: Angular degree l; the track has 2l+1 components.
        parity: +1 or -1, the sign it takes under inversion of space.
        grade: Grade in Cl(3,0), or None for a symmetric-traceless track.
    """

    name: str
    degree: int
    parity: int
    grade: int | None = None

    @property
    def dims(self) -> int:
        """Number of components, 2l+1."""
        return 2 * self.degree + 1

    @property
    def label(self) -> str:
        """O(3) label, for example `1-` for a polar vector."""
        return f"{self.degree}{'+' if self.parity > 0 else '-'}"

    @property
    def natural(self) -> bool:
        """True if the parity is that of a tensor made of polar vectors, (-1)^l."""
        return self.parity == (-1) ** self.degree


SCALAR = Track("scalar", degree=0, parity=+1, grade=0)
VECTOR = Track("vector", degree=1, parity=-1, grade=1)
BIVECTOR = Track("bivector", degree=1, parity=+1, grade=2)
PSEUDOSCALAR = Track("pseudoscalar", degree=0, parity=-1, grade=3)
GRADES: tuple[Track, Track, Track, Track] = (SCALAR, VECTOR, BIVECTOR, PSEUDOSCALAR)


def stf(degree: int) -> Track:
    """The symmetric-traceless track of a degree >= 2, with the parity of tensors made of polar vectors."""
    if degree < 2:
        raise ValueError(f"stf({degree}): symmetric-traceless tracks start at degree 2; use GRADES below that.")
    return Track(f"stf{degree}", degree=degree, parity=(-1) ** degree)


STF2, STF3, STF4 = stf(2), stf(3), stf(4)
TRACKS: tuple[Track, ...] = (*GRADES, STF2, STF3, STF4)
"""Every track a model may carry, in the order in which features store them."""

BY_NAME: dict[str, Track] = {track.name: track for track in TRACKS}


def natural_track(degree: int) -> Track:
    """The track of an edge direction's degree-l tensor: scalar, vector, stf2 and so on."""
    return (SCALAR, VECTOR)[degree] if degree < 2 else stf(degree)


@dataclass(frozen=True)
class Layout:
    """An ordered choice of tracks: where each one lies on the component axis.

    Tracks keep the order of `TRACKS`, whatever order they are given in.
    """

    tracks: tuple[Track, ...]

    def __post_init__(self) -> None:
        ordered = tuple(track for track in TRACKS if track in self.tracks)
        if len(ordered) != len(self.tracks):
            raise ValueError(f"unknown or repeated track in {[track.name for track in self.tracks]}")
        object.__setattr__(self, "tracks", ordered)

    def __iter__(self) -> Iterator[Track]:
        return iter(self.tracks)

    def __len__(self) -> int:
        return len(self.tracks)

    def __contains__(self, track: Track) -> bool:
        return track in self.tracks

    @cached_property
    def dims(self) -> int:
        """Length of the component axis."""
        return sum(track.dims for track in self.tracks)

    @cached_property
    def _slices(self) -> dict[Track, slice]:
        slices, start = {}, 0
        for track in self.tracks:
            slices[track] = slice(start, start + track.dims)
            start += track.dims
        return slices

    def slice(self, track: Track) -> slice:
        """Where a track lies on the component axis."""
        return self._slices[track]

    def take(self, features: Tensor, track: Track) -> Tensor:
        """The view (atoms, 2l+1, channels) of one track of a feature (atoms, components, channels)."""
        position = self._slices[track]
        return features.narrow(1, position.start, track.dims)

    def split(self, features: Tensor) -> dict[Track, Tensor]:
        """All tracks of a feature, as views (atoms, 2l+1, channels)."""
        parts = features.split([track.dims for track in self.tracks], dim=1)
        return dict(zip(self.tracks, parts, strict=True))

    @cached_property
    def lmax(self) -> int:
        """Highest degree in the layout."""
        return max(track.degree for track in self.tracks)

    def __str__(self) -> str:
        return " + ".join(f"{track.name} ({track.label})" for track in self.tracks)
