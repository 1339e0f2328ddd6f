"""The edge operator: one program per atom and block of channels, which sums over the atom's edges in registers."""

from cliffordstf.graph import EdgeIndex
from cliffordstf.kernels.gpu.code import Body, Channels, Place
from cliffordstf.kernels.gpu.form import Derivative, Form
from cliffordstf.kernels.gpu.kernel import FormOperator, Named
from cliffordstf.kernels.gpu.program import Kernel, Loop, form_kernel
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import EdgePlan

_EDGES = "for edge in range(tl.load(row_pointers + part), tl.load(row_pointers + part + 1)):"


class EdgeTrilinear(FormOperator):
    """h (atoms, source, channels), w (edges, rows, channels), Y (edges, edge); the context is an `EdgeIndex`."""

    kind = "triton_edge_trilinear"
    plan_type = EdgePlan
    plan: EdgePlan
    operands = ("x", "w", "y")

    def __init__(self, plan: EdgePlan) -> None:
        super().__init__(plan, Form.of_edges(plan))

    def compute(self, derivative: Derivative, tensors: Named, context: Tensors) -> Named:
        """See `FormOperator.compute`."""
        x, w, y = (tensors[name] for name in self.operands)
        index, blocks = EdgeIndex(*context), Channels(x.shape[2]).blocks
        shapes = {"out": self.shape((x, w, y), context), "dx": x.shape, "dw": w.shape}
        shapes["dy"] = (y.shape[0], blocks, y.shape[1])  # summed over the channels of each block
        made = {name: x.new_empty(shapes[name]) for name in derivative.results}
        values = {**tensors, **made, **index._asdict()}
        for build, results in ((_receiving, ("out", "dw", "dy")), (_sending, ("dx",))):
            part = derivative.restricted(results)
            if part.results:
                self.kernel(build, part, x.shape[2]).launch(x.shape[0], values, x)
        if "dy" in made:
            made["dy"] = made["dy"].sum(1) if blocks > 1 else made["dy"][:, 0]
        return made


def _receiving(form: Form, derivative: Derivative, channels: Channels) -> Kernel:
    """Sums at the receiver of the edges, and what belongs to each edge alone."""
    places = {name: Place("sender") for name in ("x", "ux")}
    places |= {name: Place("edge") for name in ("w", "uw", "dw")}
    places |= {name: Place("edge", has_channels=False) for name in ("y", "uy")}
    places |= {name: Place("part", in_loop=False) for name in ("g", "out")}
    places["dy"] = Place("piece", has_channels=False)
    rows = ("sender = tl.load(senders + edge)", f"piece = edge * {channels.blocks} + block")
    return form_kernel(
        f"edge_{derivative.name}_receivers",
        ("row_pointers", "senders"),
        channels,
        (),
        Loop(_EDGES, rows),
        Body(form, derivative, channels, places),
    )


def _sending(form: Form, derivative: Derivative, channels: Channels) -> Kernel:
    """Sums over the edges that leave an atom: the reverse of those that reach it, from its neighbours' side."""
    places = {name: Place("leaving") for name in ("w", "uw")}
    places |= {name: Place("leaving", has_channels=False) for name in ("y", "uy")}
    places |= {"g": Place("receiver"), "dx": Place("part", in_loop=False)}
    rows = ("receiver = tl.load(senders + edge)", "leaving = tl.load(reverse + edge)")
    return form_kernel(
        f"edge_{derivative.name}_senders",
        ("row_pointers", "senders", "reverse"),
        channels,
        (),
        Loop(_EDGES, rows),
        Body(form, derivative, channels, places),
    )
