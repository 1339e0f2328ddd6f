"""The paths of the paper's message: what each one reads, which weights and matrices it takes and where it writes."""

from cliffordstf.algebra.couplings import track_coupling
from cliffordstf.algebra.tracks import VECTOR, Layout, Track
from cliffordstf.kernels import EdgePath, EdgePlan, LinearPlan, LinearTerm

ATTENDED = "alpha*"
"""What the names of weight rows start with that attention multiplies."""


class MessagePlanBuilder:
    """Collects the paths of an edge plan, and the matrices before and after it.

    Args:
        grades: Tracks that are sent as they are, before all others.

    Attributes:
        sent: Tracks of the sender that are multiplied by a matrix and their place in what is sent, by name of the
            matrix.
        contracted: The same for S·v of the sender.
        rows: Weight rows of the plan by name, which is that of a function of the distance, with `ATTENDED` before it
            if attention multiplies it.
        targets: Places in the sum over edges by slot and track. Slots `plus` and `minus` hold products that are
            multiplied by a matrix, `direct` holds what is complete.
    """

    def __init__(self, grades: Layout) -> None:
        self.grades = grades
        self.source_dims = grades.dims
        self.sent: dict[str, tuple[Track, int]] = {}
        self.contracted: dict[str, tuple[Track, int]] = {}
        self.rows: dict[str, int] = {}
        self.targets: dict[tuple[str, Track], int] = {}
        self.target_dims = 0
        self.paths: list[EdgePath] = []

    def product(self, slot: str, row: str, a: Track, b: Track, c: Track, sign: int) -> None:
        """A grade of the geometric product, read from the sender's features as they are."""
        self._path(slot, row, self.grades.slice(a).start, a, b, c, sign)

    def send(self, name: str, row: str, a: Track, b: Track, c: Track) -> None:
        """A term whose matrix acts on a track of the sender."""
        self.sent[f"{name}_{c.name}"] = (a, self.source_dims)
        self._send(row, a, b, c)

    def send_contraction(self, name: str, row: str, a: Track, b: Track, c: Track) -> None:
        """A term whose matrix acts on S·v of the sender."""
        self.contracted[f"{name}_{c.name}"] = (a, self.source_dims)
        self._send(row, a, b, c)

    def _send(self, row: str, a: Track, b: Track, c: Track) -> None:
        start = self.source_dims
        self.source_dims += a.dims
        self._path("direct", row, start, a, b, c, 1)

    def _path(self, slot: str, row: str, source: int, a: Track, b: Track, c: Track, sign: int) -> None:
        if (slot, c) not in self.targets:
            self.targets[slot, c] = self.target_dims
            self.target_dims += c.dims
        weight = self.rows.setdefault(row, len(self.rows))
        target = self.targets[slot, c]
        self.paths.append(EdgePath(track_coupling(a, b, c), source, b.degree**2, target, weight, float(sign)))

    def plan(self) -> EdgePlan:
        """The sum over edges."""
        edge_dims = max(path.edge + path.coupling.b.dims for path in self.paths)
        return EdgePlan(tuple(self.paths), self.source_dims, edge_dims, self.target_dims, len(self.rows))

    def layout(self) -> Layout:
        """Tracks of the message."""
        return Layout(tuple({track for _, track in self.targets}))

    def direct(self) -> Layout:
        """Tracks that hold something complete."""
        return Layout(tuple(track for slot, track in self.targets if slot == "direct"))

    def direct_slices(self) -> list[slice]:
        """Where the tracks of `direct` lie in the sum over edges."""
        starts = [(self.targets["direct", track], track.dims) for track in self.direct()]
        return [slice(start, start + dims) for start, dims in starts]

    def products(self) -> list[tuple[str, Track]]:
        """Slot and track of what is multiplied by a matrix after the sum."""
        return [(slot, track) for slot, track in self.targets if slot != "direct"]

    def sending(self, source: Layout) -> LinearPlan:
        """Matrices on the features of the sender and, as a second term if there are any, on its S·v."""
        first = self.grades.dims
        tracks = tuple(
            (source.slice(track).start, start - first, track.dims, index)
            for index, (track, start) in enumerate(self.sent.values())
        )
        terms = [LinearTerm(source.dims, tracks)]
        if self.contracted:
            tracks = tuple(
                (0, start - first, track.dims, index) for index, (track, start) in enumerate(self.contracted.values())
            )
            terms.append(LinearTerm(VECTOR.dims, tracks))
        return LinearPlan(tuple(terms), self.source_dims - first)

    def receiving(self) -> LinearPlan:
        """Matrices on the products that an atom has received."""
        layout = self.layout()
        tracks = tuple(
            (self.targets[key], layout.slice(key[1]).start, key[1].dims, index)
            for index, key in enumerate(self.products())
        )
        return LinearPlan((LinearTerm(self.target_dims, tracks),), layout.dims)
