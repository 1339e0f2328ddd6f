"""The trilinear form behind both operators, and what its derivatives sum.

A form takes operands x, y and w, and a gradient g of its result:

  F = Σ over paths and their terms (a, b, c, coefficient):  coefficient · g_c · x_a · y_b · w_row

Its result is dF/dg, its first derivatives are dF/dx, dF/dy and dF/dw. With cotangents ux, uy, uw of these, the second
derivatives are the same sums of <ux, dF/dx> + <uy, dF/dy> + <uw, dF/dw>: of F with one operand replaced by its
cotangent, for each of the three in turn.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from cliffordstf.kernels.plan import EdgePath, EdgePlan, NodePath, NodePlan

Term: TypeAlias = tuple[int, int, int, float]
"""(component of x, component of y, component of the result, coefficient)."""

OPERANDS = ("x", "y", "w")


@dataclass(frozen=True)
class Path:
    """The terms of one coupling, which share a row of w."""

    row: int
    terms: tuple[Term, ...]

    @cached_property
    def targets(self) -> list[int]:
        """Components of the result that it adds to."""
        return sorted({c for _, _, c, _ in self.terms})


@dataclass(frozen=True)
class Pair:
    """The paths that multiply one track of x by one track of y, and so share the products x_a y_b."""

    paths: tuple[Path, ...]

    @cached_property
    def products(self) -> list[tuple[int, int]]:
        """Components (a, b) that are multiplied."""
        return sorted({(a, b) for path in self.paths for a, b, _, _ in path.terms})

    def touched(self, result: str) -> set[int]:
        """Components of a result that the pair adds to."""
        if result == "dw":
            return {path.row for path in self.paths}
        axis = {"dx": 0, "dy": 1, "out": 2}[result]
        return {int(term[axis]) for path in self.paths for term in path.terms}


@dataclass(frozen=True)
class Form:
    """A trilinear form.

    Attributes:
        pairs: Its paths. Pairs with the same track of y follow each other, so that few sums are open at a time.
        x, y, w, out: Number of components of the operands and of the result.
    """

    pairs: tuple[Pair, ...]
    x: int
    y: int
    w: int
    out: int

    @classmethod
    def of_edges(cls, plan: EdgePlan) -> "Form":
        """Node features x, edge tensors y, weights w per edge."""
        pairs = _pairs((path.source, path.edge, path.target, path) for path in plan.paths)
        return cls(pairs, plan.source_dims, plan.edge_dims, plan.weight_rows, plan.target_dims)

    @classmethod
    def of_nodes(cls, plan: NodePlan) -> "Form":
        """Node features x and y, weights w; a plan without weights has one row, of ones."""
        pairs = _pairs((path.left, path.right, path.target, path) for path in plan.paths)
        return cls(pairs, plan.left_dims, plan.right_dims, max(1, plan.weight_rows), plan.target_dims)

    def size(self, name: str) -> int:
        """Components of an operand, of its gradient or cotangent, of the result or of its gradient."""
        sizes = {"x": self.x, "y": self.y, "w": self.w, "g": self.out, "out": self.out}
        return sizes[name] if name in sizes else sizes[name[1:]]


@dataclass(frozen=True)
class Derivative:
    """Which results a kernel makes from which tensors.

    Attributes:
        order: 0 for the result of the form, 1 for its first derivatives, 2 for the second ones.
        given: Operands whose gradients have a cotangent, at order 2; the others' are zero.
        results: What is wanted of `out`, `dx`, `dy` and `dw`; `out` is the gradient of g at order 2.
    """

    order: int
    given: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the order."""
        return ("forward", "backward", "second")[self.order]

    def restricted(self, results: Collection[str]) -> "Derivative":
        """The part that makes some of the results."""
        return Derivative(self.order, self.given, tuple(name for name in self.results if name in results))

    def factors(self, result: str) -> list[dict[str, str]]:
        """The products that a result sums: for each, the tensor that stands in the place of every operand.

        The list is empty for a result that is zero or not wanted.
        """
        if result not in self.results:
            return []
        operands = {name: name for name in OPERANDS if result != "d" + name}
        if self.order < 2:
            return [operands]
        return [{**operands, name: "u" + name} for name in operands if name in self.given]

    @property
    def vanishing(self) -> list[str]:
        """Results that are wanted but that no cotangent reaches."""
        return [result for result in self.results if not self.factors(result)]

    @property
    def computed(self) -> "Derivative":
        """The part that is not zero."""
        return self.restricted([result for result in self.results if self.factors(result)])


def _pairs(places: Iterable[tuple[int, int, int, EdgePath | NodePath]]) -> tuple[Pair, ...]:
    """Group paths, given with the first components of their tracks in x, y and the result."""
    pairs: dict[tuple[int, int], list[Path]] = {}
    for x, y, target, path in places:
        terms = tuple((x + a, y + b, target + c, float(value) * path.scale) for a, b, c, value in path.coupling.terms)
        pairs.setdefault((y, x), []).append(Path(path.weight, terms))
    return tuple(Pair(tuple(pairs[key])) for key in sorted(pairs))
