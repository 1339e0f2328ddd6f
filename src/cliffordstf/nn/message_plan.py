"""The paths of the paper's message: what each one reads, which weights and matrices it takes and where it writes."""

from functools import cache

from cliffordstf.algebra.couplings import track_coupling
from cliffordstf.algebra.tracks import VECTOR, Layout, Track
from cliffordstf.kernels import AS_IT_IS, EdgePath, EdgePlan, LinearPlan, LinearTerm

ATTENDED = "alpha*"
"""What the names of weight rows start with that attention multiplies."""

EDGE, RADIAL, ONE = "edge", "radial", "one"
"""What weight rows are: a feature of the edge (its number follows), the radial function, or one."""


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

    def products(self) -> list[tuple[str, Track]]:
        """Slot and track of what is multiplied by a matrix after the sum."""
        return [(slot, track) for slot, track in self.targets if slot != "direct"]

    def sending(self, source: Layout) -> LinearPlan:
        """The sender's grades, matrices on its features and, as a second term if there are any, on its S·v."""
        grades = tuple((source.slice(t).start, self.grades.slice(t).start, t.dims, AS_IT_IS) for t in self.grades)
        matrices = tuple(
            (source.slice(track).start, start, track.dims, index)
            for index, (track, start) in enumerate(self.sent.values())
        )
        terms = [LinearTerm(source.dims, (*grades, *matrices))]
        if self.contracted:
            tracks = tuple(
                (0, start, track.dims, index) for index, (track, start) in enumerate(self.contracted.values())
            )
            terms.append(LinearTerm(VECTOR.dims, tracks))
        return LinearPlan(tuple(terms), self.source_dims)

    def receiving(self) -> LinearPlan:
        """What an atom has received: matrices on the products, the rest as it is."""
        layout, products = self.layout(), self.products()
        tracks = tuple(
            (start, layout.slice(key[1]).start, key[1].dims, products.index(key) if key in products else AS_IT_IS)
            for key, start in self.targets.items()
        )
        return LinearPlan((LinearTerm(self.target_dims, tracks),), layout.dims)


@cache
def weighting_plan(rows: tuple[str, ...], features: int) -> LinearPlan:
    """Weight rows from what is known of a pair, which has so many hidden edge features.

    Terms: matrices on the hidden edge features, on the hidden features of the radial function if a row takes it, biases
    of both times the envelope, and ones if a row has nothing else.
    """
    names = [row.removeprefix(ATTENDED) for row in rows]
    edge = [(int(name.removeprefix(EDGE)), row) for row, name in enumerate(names) if name.startswith(EDGE)]
    radial = [(0, row) for row, name in enumerate(names) if name == RADIAL]
    ones = [(0, row) for row, name in enumerate(names) if name == ONE]
    biases = [(0, row) for _, row in (*edge, *radial)]
    terms = [
        LinearTerm(count, tuple((start, row, 1, index) for index, (start, row) in enumerate(term)))
        for count, term in ((features, edge), (1, radial), (1, biases), (1, ones))
        if term
    ]
    return LinearPlan(tuple(terms), len(names))
