"""The node product: one program per atom and block of channels; gradients of the weights by chunks of atoms."""

import torch
from torch import Tensor

from cliffordstf.kernels.gpu.code import Body, Channels, Place
from cliffordstf.kernels.gpu.form import Derivative, Form
from cliffordstf.kernels.gpu.kernel import FormOperator, Named
from cliffordstf.kernels.gpu.program import Kernel, Loop, form_kernel
from cliffordstf.kernels.operator import Tensors
from cliffordstf.kernels.plan import NodePlan

CHUNKS = 512
"""Partial sums over atoms of a gradient of the weights, over all groups: enough to fill a large GPU."""


class NodeBilinear(FormOperator):
    """x (atoms, left, channels), y (atoms, right, channels), w (groups, rows, channels).

    The context is empty or holds the group of each atom, int64 (atoms,).
    """

    kind = "triton_node_bilinear"
    plan_type = NodePlan
    plan: NodePlan
    operands = ("x", "y", "w")

    def __init__(self, plan: NodePlan) -> None:
        super().__init__(plan, Form.of_nodes(plan))

    def compute(self, derivative: Derivative, tensors: Named, context: Tensors) -> Named:
        """See `FormOperator.compute`."""
        made: Named = {}
        # Two kernels: they have no sum in common, and one for both would run out of registers.
        for results in (("out",), ("dx", "dy")):
            part = derivative.restricted(results)
            if part.results:
                made |= self._atoms(part, tensors, context)
        if "dw" in derivative.results:
            made["dw"] = self._weights(derivative.restricted(("dw",)), tensors, context)
        return made

    def _atoms(self, derivative: Derivative, tensors: Named, context: Tensors) -> Named:
        x = tensors["x"]
        made = {name: x.new_empty(x.shape[0], self.form.size(name), x.shape[2]) for name in derivative.results}
        values = {**tensors, **made}
        if context:
            values["groups"] = context[0]
        self.kernel(_by_atom, derivative, x.shape[2], bool(context)).launch(x.shape[0], values, x)
        return made

    def _weights(self, derivative: Derivative, tensors: Named, context: Tensors) -> Tensor:
        x, w = tensors["x"], tensors["w"]
        groups, rows, channels = w.shape
        # Their number depends on sizes alone: sums come out the same every time, and nothing has to wait for the GPU.
        chunks = max(1, min(CHUNKS // groups, x.shape[0]))
        partial_sums = x.new_empty(groups * chunks, rows, channels)
        values: dict[str, Tensor | int] = {**tensors, "dw": partial_sums, "chunks": chunks, "atoms": x.shape[0]}
        if context:
            ordered, values["order"] = torch.sort(context[0], stable=True)
            values["starts"] = torch.searchsorted(ordered, torch.arange(groups + 1, device=x.device))
        self.kernel(_by_chunk, derivative, channels, bool(context)).launch(len(partial_sums), values, x)
        return partial_sums.unflatten(0, (groups, chunks)).sum(1)


def _by_atom(form: Form, derivative: Derivative, channels: Channels, grouped: bool) -> Kernel:
    """The results that belong to an atom."""
    places = {name: Place("part") for name in ("x", "y", "ux", "uy", "g", "out", "dx", "dy")}
    places |= {name: Place("group") for name in ("w", "uw")}
    arguments, group = (("groups",), "tl.load(groups + part)") if grouped else ((), "0")
    body = Body(form, derivative, channels, places)
    return form_kernel(f"node_{derivative.name}", arguments, channels, (f"group = {group}",), None, body)


def _by_chunk(form: Form, derivative: Derivative, channels: Channels, grouped: bool) -> Kernel:
    """The gradient of the weights, summed over the chunks of each group's atoms."""
    places = {name: Place("atom") for name in ("x", "y", "ux", "uy", "g")}
    places["dw"] = Place("part", in_loop=False)
    arguments = ("order", "starts", "chunks") if grouped else ("atoms", "chunks")
    # Without groups every atom is in the first one.
    first = "tl.load(starts + part // chunks)" if grouped else "0"
    count = "tl.load(starts + part // chunks + 1) - first" if grouped else "tl.where(part < chunks, atoms, 0)"
    atom = "tl.load(order + position)" if grouped else "position"
    rows = (
        f"first = {first}",
        f"count = {count}",
        "chunk = part % chunks",
        "begin = first + count * chunk // chunks",
        "end = first + count * (chunk + 1) // chunks",
    )
    loop = Loop("for position in range(begin, end):", (f"atom = {atom}",))
    body = Body(form, derivative, channels, places)
    return form_kernel(f"node_{derivative.name}_weights", arguments, channels, rows, loop, body)
