"""Straight-line Triton code for a derivative of a form: one statement per product or sum, over a block of channels."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cliffordstf.kernels.gpu.form import Derivative, Form, Pair, Path

LARGEST_BLOCK = 32
"""Channels of a program: one warp with one channel per thread, so that sums over channels need no barrier."""


@dataclass(frozen=True)
class Channels:
    """How channels are cut into blocks."""

    count: int

    @property
    def block(self) -> int:
        """Channels of a program, a power of two."""
        return int(min(LARGEST_BLOCK, 1 << max(0, self.count - 1).bit_length()))

    @property
    def blocks(self) -> int:
        """Programs that share the channels."""
        return -(-self.count // self.block)

    @property
    def masked(self) -> bool:
        """Whether the last block is cut off."""
        return self.count % self.block > 0

    def load(self, address: str) -> str:
        """Read one component of a block."""
        return f"tl.load({address}, mask=inside, other=0.0)" if self.masked else f"tl.load({address})"

    def store(self, address: str, value: str) -> str:
        """Write one component of a block."""
        return f"tl.store({address}, {value}, mask=inside)" if self.masked else f"tl.store({address}, {value})"


@dataclass(frozen=True)
class Place:
    """Where a kernel finds or puts a tensor.

    Attributes:
        row: Variable with the index along the first axis.
        has_channels: Whether channels are the last axis; a result without them is summed over the block.
        in_loop: Whether the row changes from one turn of the kernel's loop to the next. If not, an operand is read
            before the loop, and a result is summed over all turns and written behind it.
    """

    row: str
    has_channels: bool = True
    in_loop: bool = True


class Body:
    """The code of a derivative. Components are variables `tensor_index`, read where they are needed first.

    Args:
        form: The form.
        derivative: What of it is computed; nothing that vanishes.
        channels: How channels are cut.
        places: Where every tensor lies, also those that turn out not to be used.

    Attributes:
        before, inside, behind: Statements around and in the kernel's loop.
        used: Names of the tensors that the code reads or writes.
    """

    def __init__(self, form: Form, derivative: Derivative, channels: Channels, places: Mapping[str, Place]) -> None:
        self.before: list[str] = []
        self.inside: list[str] = []
        self.behind: list[str] = []
        self.used: list[str] = []
        self._form, self._derivative, self._channels, self._places = form, derivative, channels, places
        self._known: set[str] = set()
        self._start_sums()
        for position, pair in enumerate(form.pairs):
            self._values(pair)
            self._pullbacks(pair)
            self._store_complete(pair, form.pairs[position + 1 :])
        self._store_rest()

    def _start_sums(self) -> None:
        for result in self._derivative.results:
            if not self._places[result].in_loop:
                for index in range(self._form.size(result)):
                    self._add(self.before, result, index, "zero")

    def _values(self, pair: Pair) -> None:
        """Sums over x and y: `out`, weighted, and `dw`, contracted with g."""
        contracted = tuple((factor["x"], factor["y"]) for factor in self._derivative.factors("dw"))
        for products, weights in self._product_sums(contracted).items():
            for a, b in pair.products:
                terms = [f"{self._operand(x, a)} * {self._operand(y, b)}" for x, y in products]
                self.inside.append(f"p_{a}_{b} = {' + '.join(terms)}")
            for path in pair.paths:
                self._couple(path)
                for c in path.targets:
                    for weight in weights:
                        self._add(self.inside, "out", c, f"{self._operand(weight, path.row)} * t_{c}")
                if products == contracted:
                    terms = [f"{self._operand('g', c)} * t_{c}" for c in path.targets]
                    self._add(self.inside, "dw", path.row, " + ".join(terms))

    def _product_sums(self, contracted: tuple[tuple[str, str], ...]) -> dict[tuple[tuple[str, str], ...], list[str]]:
        """Every sum of products x y that is coupled, and the weights by which its coupling adds to `out`."""
        by_weight: dict[str, list[tuple[str, str]]] = {}
        for factor in self._derivative.factors("out"):
            by_weight.setdefault(factor["w"], []).append((factor["x"], factor["y"]))
        sums: dict[tuple[tuple[str, str], ...], list[str]] = {contracted: []} if contracted else {}
        for weight, products in by_weight.items():
            sums.setdefault(tuple(products), []).append(weight)
        return sums

    def _couple(self, path: Path) -> None:
        """t_c = Σ coefficient · p_ab."""
        for c in path.targets:
            terms = [(value, f"p_{a}_{b}") for a, b, k, value in path.terms if k == c]
            self.inside.append(f"t_{c} = {linear(terms)}")

    def _pullbacks(self, pair: Pair) -> None:
        """Sums over w and g: `dx` and `dy`, through the gradient of every product x_a y_b."""
        factors = [*self._derivative.factors("dx"), *self._derivative.factors("dy")]
        for weight in sorted({factor["w"] for factor in factors}):
            self._product_gradients(pair, weight)
        for result, other, axis in (("dx", "y", 0), ("dy", "x", 1)):
            sums: dict[int, list[str]] = {}
            for product in pair.products:
                for factor in self._derivative.factors(result):
                    gradient = f"q_{factor['w']}_{product[0]}_{product[1]}"
                    partner = self._operand(factor[other], product[1 - axis])
                    sums.setdefault(product[axis], []).append(f"{gradient} * {partner}")
            for index, terms in sums.items():
                self._add(self.inside, result, index, " + ".join(terms))

    def _product_gradients(self, pair: Pair, weight: str) -> None:
        """q_ab = Σ coefficient · w_row · g_c, over all paths of the pair."""
        gradients: dict[tuple[int, int], list[tuple[float, str]]] = {product: [] for product in pair.products}
        for number, path in enumerate(pair.paths):
            for c in path.targets:
                product = f"{self._operand(weight, path.row)} * {self._operand('g', c)}"
                self.inside.append(f"s{number}_{c} = {product}")
            for a, b, c, value in path.terms:
                gradients[a, b].append((value, f"s{number}_{c}"))
        for (a, b), terms in gradients.items():
            self.inside.append(f"q_{weight}_{a}_{b} = {linear(terms)}")

    def _store_complete(self, pair: Pair, later: tuple[Pair, ...]) -> None:
        """Write what the pair was the last to add to: its registers are free then."""
        for result in self._derivative.results:
            if self._places[result].in_loop:
                open_sums = set[int]().union(*(other.touched(result) for other in later))
                self._store(self.inside, result, pair.touched(result) - open_sums)

    def _store_rest(self) -> None:
        """Write the sums over the loop, and zeros where no path leads."""
        for result in self._derivative.results:
            indices = set(range(self._form.size(result)))
            if self._places[result].in_loop:
                reached = set[int]().union(*(pair.touched(result) for pair in self._form.pairs))
                self._store(self.inside, result, indices - reached)
            else:
                self._store(self.behind, result, indices)

    def _operand(self, name: str, index: int) -> str:
        """The variable of a component, read now if it is not known yet."""
        variable, place = f"{name}_{index}", self._places[name]
        if variable not in self._known:
            lines = self.inside if place.in_loop else self.before
            address = self._address(lines, name, index)
            lines.append(
                f"{variable} = {self._channels.load(address) if place.has_channels else f'tl.load({address})'}"
            )
            self._known.add(variable)
        return variable

    def _add(self, lines: list[str], name: str, index: int, value: str) -> None:
        variable = f"{name}_{index}"
        lines.append(f"{variable} {'+=' if variable in self._known else '='} {value}")
        self._known.add(variable)

    def _store(self, lines: list[str], result: str, indices: set[int]) -> None:
        for index in sorted(indices):
            variable = f"{result}_{index}"
            value = variable if variable in self._known else "zero"
            address = self._address(lines, result, index)
            if self._places[result].has_channels:
                lines.append(self._channels.store(address, value))
            else:
                lines.append(f"tl.store({address}, tl.sum({value}, axis=0))")

    def _address(self, lines: list[str], name: str, index: int) -> str:
        """Of a component; the address of its row is computed first if this is the first one."""
        place, size = self._places[name], self._form.size(name)
        stride = self._channels.count if place.has_channels else 1
        if name not in self.used:
            lines.append(f"{name}_row = {name} + {place.row} * {size * stride}{' + channel' * place.has_channels}")
            self.used.append(name)
        return f"{name}_row + {index * stride}"


def linear(terms: Iterable[tuple[float, str]]) -> str:
    """Linear combination of variables; factors of one are left out."""
    text = ""
    for value, variable in terms:
        sign = (" - " if text else "-") if value < 0 else (" + " if text else "")
        text += sign + ("" if abs(value) == 1 else f"{abs(value)!r} * ") + variable
    return text
