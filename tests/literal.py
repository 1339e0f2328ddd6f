"""The paper's formulas, transcribed edge by edge: the oracle for the node-level rewriting.

Nothing is taken from the coupling table or from the layers: the Cayley table is multiplied out below, the STF maps are
written by component, and every matrix over channels runs on edges, where the paper has it. Only the weights are
those of
the model under test. Features are a multivector (atoms, 8, C), S (atoms, 5, C) as xx xy xz yy yz and T (atoms, 7, C) as
xxx xxy xxz xyy xyz yyy yyz; what a model does not carry stays zero.
"""

from math import pi

import torch
from torch import Tensor
from torch.nn.functional import silu

from cliffordstf.data.batch import Batch
from cliffordstf.model.paper import PaperModel

GRADE_SLICES = {"scalar": slice(0, 1), "vector": slice(1, 4), "bivector": slice(4, 7), "pseudoscalar": slice(7, 8)}
BLADES = ["", "1", "2", "3", "12", "13", "23", "123"]


def _multiply_blades(left: str, right: str) -> tuple[str, int]:
    word, sign = list(left + right), 1
    changed = True
    while changed:
        changed = False
        for i in range(len(word) - 1):
            if word[i] == word[i + 1]:
                del word[i : i + 2]
                changed = True
                break
            if word[i] > word[i + 1]:
                word[i], word[i + 1], sign, changed = word[i + 1], word[i], -sign, True
                break
    return "".join(word), sign


def cayley() -> Tensor:
    table = torch.zeros(8, 8, 8, dtype=torch.float64)
    for i, left in enumerate(BLADES):
        for j, right in enumerate(BLADES):
            blade, sign = _multiply_blades(left, right)
            table[i, j, BLADES.index(blade)] = sign
    return table


CAYLEY = cayley()


def gp(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("nic,njc,ijk->nkc", a, b, CAYLEY.to(a.dtype))


def stf2(u: Tensor, v: Tensor) -> Tensor:
    (ux, uy, uz), (vx, vy, vz) = u.unbind(1), v.unbind(1)
    trace = (ux * vx + uy * vy + uz * vz) / 3
    return torch.stack(
        [ux * vx - trace, (ux * vy + uy * vx) / 2, (ux * vz + uz * vx) / 2, uy * vy - trace, (uy * vz + uz * vy) / 2], 1
    )


def matrix(s: Tensor) -> list[list[Tensor]]:
    xx, xy, xz, yy, yz = s.unbind(1)
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, -xx - yy]]


def contract(s: Tensor, v: Tensor) -> Tensor:
    rows = matrix(s)
    x, y, z = v.unbind(1)
    return torch.stack([row[0] * x + row[1] * y + row[2] * z for row in rows], 1)


def cross(s: Tensor, v: Tensor) -> Tensor:
    """Symmetric part of ε_ikl v_k S_lj; its trace vanishes."""
    m = matrix(s)
    x, y, z = v.unbind(1)
    r = [[y * m[2][j] - z * m[1][j], z * m[0][j] - x * m[2][j], x * m[1][j] - y * m[0][j]] for j in range(3)]
    r = [[r[j][i] for j in range(3)] for i in range(3)]
    return torch.stack([r[0][0], (r[0][1] + r[1][0]) / 2, (r[0][2] + r[2][0]) / 2, r[1][1], (r[1][2] + r[2][1]) / 2], 1)


def stf3(s: Tensor, v: Tensor) -> Tensor:
    m, w, a = matrix(s), v.unbind(1), (contract(s, v) * (2 / 3)).unbind(1)

    def component(i: int, j: int, k: int) -> Tensor:
        symmetric = (m[i][j] * w[k] + m[i][k] * w[j] + m[j][k] * w[i]) / 3
        return symmetric - ((i == j) * a[k] + (i == k) * a[j] + (j == k) * a[i]) / 5

    return torch.stack(
        [component(*ijk) for ijk in [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1), (0, 1, 2), (1, 1, 1), (1, 1, 2)]], 1
    )


def contract3(t: Tensor, v: Tensor) -> Tensor:
    xxx, xxy, xxz, xyy, xyz, yyy, yyz = t.unbind(1)
    xzz, yzz = -xxx - xyy, -xxy - yyy
    x, y, z = v.unbind(1)
    return torch.stack(
        [
            xxx * x + xxy * y + xxz * z,
            xxy * x + xyy * y + xyz * z,
            xxz * x + xyz * y + xzz * z,
            xyy * x + yyy * y + yyz * z,
            xyz * x + yyz * y + yzz * z,
        ],
        1,
    )


def norm2(s: Tensor) -> Tensor:
    return sum(entry**2 for row in matrix(s) for entry in row)


def norm3(t: Tensor) -> Tensor:
    xxx, xxy, xxz, xyy, xyz, yyy, yyz = t.unbind(1)
    xzz, yzz, zzz = -xxx - xyy, -xxy - yyy, -xxz - yyz
    return xxx**2 + yyy**2 + zzz**2 + 3 * (xxy**2 + xxz**2 + xyy**2 + xzz**2 + yyz**2 + yzz**2) + 6 * xyz**2


class State:
    """Multivector, STF2 and STF3 of atoms or edges."""

    def __init__(self, mv: Tensor, s: Tensor, t: Tensor) -> None:
        self.mv, self.s, self.t = mv, s, t

    @classmethod
    def zeros(cls, n: int, channels: int, dtype: torch.dtype) -> "State":
        return cls(*(torch.zeros(n, d, channels, dtype=dtype) for d in (8, 5, 7)))

    def get(self, name: str) -> Tensor:
        return {"stf2": self.s, "stf3": self.t}[name] if name.startswith("stf") else self.mv[:, GRADE_SLICES[name]]

    def put(self, name: str, value: Tensor) -> None:
        """Add to a track, out of place."""
        if name == "stf2":
            self.s = self.s + value
        elif name == "stf3":
            self.t = self.t + value
        else:
            padded = [torch.zeros_like(self.mv[:, : GRADE_SLICES[name].start]), value]
            padded.append(torch.zeros_like(self.mv[:, GRADE_SLICES[name].stop :]))
            self.mv = self.mv + torch.cat(padded, 1)

    def only(self, names: list[str]) -> "State":
        kept = State.zeros(self.mv.shape[0], self.mv.shape[2], self.mv.dtype)
        for name in names:
            kept.put(name, self.get(name))
        return kept


def squared(name: str, part: Tensor) -> Tensor:
    return norm2(part) if name == "stf2" else norm3(part) if name == "stf3" else (part**2).sum(1)


def augmented(a: State, b: State, names: list[str]) -> State:
    va, vb = a.mv[:, 1:4], b.mv[:, 1:4]
    out = State(gp(a.mv, b.mv), torch.zeros_like(a.s), torch.zeros_like(a.t))
    if "stf2" in names:
        out.s = stf2(va, vb) + cross(a.s, vb) + cross(b.s, va)
        out.mv = torch.cat([out.mv[:, :1] + frobenius(a.s, b.s)[:, None], out.mv[:, 1:]], 1)
    if "stf3" in names:
        out.t = stf3(a.s, vb)
        out.s = out.s + contract3(a.t, vb)
    return out


def frobenius(s: Tensor, t: Tensor) -> Tensor:
    return sum(
        x * y for left, right in zip(matrix(s), matrix(t), strict=True) for x, y in zip(left, right, strict=True)
    )


def track_linear(linear: torch.nn.Module, state: State, bias: bool = True) -> State:
    out = State.zeros(state.mv.shape[0], linear.weight.shape[2], state.mv.dtype)
    for weight, track in zip(linear.weight, linear.layout, strict=True):
        value = state.get(track.name) @ weight
        if track.name == "scalar" and linear.bias is not None and bias:
            value = value + linear.bias
        out.put(track.name, value)
    return out


def names_of(layout) -> list[str]:
    return [track.name for track in layout]


class Edges:
    """Per-edge inputs by the paper's formulas."""

    def __init__(self, model: PaperModel, batch: Batch) -> None:
        config = model.config
        dtype = model.embedding.weight.dtype
        self.i, self.j = batch.receivers, batch.senders
        vectors = batch.vectors().to(dtype)
        self.d = vectors.norm(dim=1)
        self.r = (vectors / self.d[:, None])[:, :, None]
        centres = torch.linspace(0, config.cutoff, config.basis, dtype=torch.float32).to(dtype)
        self.rbf = torch.exp(-0.5 * ((self.d[:, None] - centres) / (config.cutoff / (config.basis - 1))) ** 2)
        self.rbf = self.rbf * (config.basis / pi**0.5) ** 0.5
        self.env = (0.5 * (torch.cos(pi * self.d / config.cutoff) + 1))[:, None]
        self.hidden = silu(model.edge_embedding.hidden(self.rbf)).chunk(model.edge_embedding.count, dim=1)
        self.atoms = len(batch.numbers)

    def scatter(self, values: Tensor) -> Tensor:
        return torch.zeros(self.atoms, *values.shape[1:], dtype=values.dtype).index_add(0, self.i, values)


def attention(module, scalars: Tensor, edges: Edges) -> Tensor:
    heads = module.heads
    q, k = module.query(scalars)[edges.i], module.key(scalars)[edges.j]
    size = q.shape[1] // heads
    bias = module.bias(edges.rbf)
    total = 0
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        logit = (q[:, part] * k[:, part]).sum(1) / size**0.5 + bias[:, head]
        weight = torch.exp(logit - logit.detach().max())
        total = total + weight / edges.scatter(weight)[edges.i]
    return (total / heads)[:, None, None]


def messages(module, state: State, edges: Edges) -> State:
    """Every message on its own edge, with every matrix on the edge, then the sum over neighbours."""
    w = module.weights
    channels = state.mv.shape[2]
    sender = State(state.mv[edges.j], state.s[edges.j], state.t[edges.j])
    m = State.zeros(len(edges.d), channels, state.mv.dtype)
    alpha = attention(module.attention, state.mv[:, 0], edges) if module.attention is not None else None
    feature = {f: (head(edges.hidden[int(f)]) * edges.env)[:, None] for f, head in module.edge_heads.items()}
    vector = sender.mv[:, 1:4]
    names = names_of(module.layout)
    if alpha is not None:
        e = torch.cat(
            [feature["0"], feature["1"] * edges.r, torch.zeros(len(edges.d), 4, channels, dtype=m.mv.dtype)], 1
        )
        left, right = gp(sender.mv, e), gp(e, sender.mv)
        for name, part in GRADE_SLICES.items():
            if f"left_{name}" in w:
                m.put(name, alpha * (left[:, part] @ w[f"left_{name}"] + right[:, part] @ w[f"right_{name}"]))
        m.put("scalar", alpha * (sender.mv[:, :1] @ w["skip_scalar"]))
        if "cross_vector" in w:
            m.put("vector", alpha * (contract(sender.s, vector) @ w["cross_vector"]))
        if "edge_vector" in w:
            direction = stf2(edges.r, edges.r)
            m.put("vector", alpha * (contract(direction * feature["2"], vector @ w["edge_vector"])))
    if module.radial is not None:
        rho = (module.radial(edges.rbf) * edges.env)[:, None]
        if "generate_stf2" in w:
            m.put("stf2", rho * (stf2(vector, edges.r) @ w["generate_stf2"]))
        if "send_stf2" in w:
            m.put("stf2", rho * (sender.s @ w["send_stf2"]))
        if "generate_stf3" in w:
            m.put("stf3", rho * (stf3(sender.s, edges.r) @ w["generate_stf3"]))
        if "send_stf3" in w:
            m.put("stf3", rho * (sender.t @ w["send_stf3"]))
    if "edge_stf2" in w:
        m.put("stf2", (sender.mv[:, :1] @ w["edge_stf2"]) * feature["2"] * stf2(edges.r, edges.r))
    return State(edges.scatter(m.mv), edges.scatter(m.s), edges.scatter(m.t)).only(names)


def interaction(layer, state: State, edges: Edges, carried: list[str]) -> State:
    aggregate = messages(layer.message, state, edges)
    powers = [aggregate]
    for _ in layer.product.linears[1:]:
        powers.append(augmented(powers[-1], aggregate, carried).only(carried))
    body = State.zeros(edges.atoms, state.mv.shape[2], state.mv.dtype)
    for linear, power in zip(layer.product.linears, powers, strict=True):
        term = track_linear(linear, power)
        body = State(body.mv + term.mv, body.s + term.s, body.t + term.t)
    own, fresh = track_linear(layer.linear_self, state), track_linear(layer.linear_in, body)
    update = State(own.mv + fresh.mv, own.s + fresh.s, own.t + fresh.t)
    names = names_of(layer.layout)
    gated = State.zeros(edges.atoms, state.mv.shape[2], state.mv.dtype)
    for name in names:
        part = update.get(name)
        if name == "scalar":
            gated.put(name, silu(part))
        else:
            size = (squared(name, part) + 1e-8).sqrt()
            gated.put(name, part * torch.sigmoid(layer.gate.gates[name](size))[:, None])
    out = track_linear(layer.linear_out, gated)
    result = State.zeros(edges.atoms, state.mv.shape[2], state.mv.dtype)
    for name, scale in zip(names, layer.norm.scale, strict=True):
        part = out.get(name) + state.get(name)
        size = (squared(name, part).mean(1) + 0.1).sqrt()
        result.put(name, part / size[:, None, None] * scale)
    return result


def route(model: PaperModel, state: State, species: Tensor, edges: Edges) -> State:
    router = model.router
    if router.table is not None:
        gates = torch.sigmoid(router.table[species])
    else:
        count = edges.scatter(torch.ones_like(edges.d))
        safe = count.clamp(min=1)
        mean = edges.scatter(edges.r[:, :, 0]) / safe[:, None]
        variance = 1 - ((mean**2).sum(1) + 1e-8).sqrt()
        distance = edges.scatter(edges.d) / safe
        size = ((state.mv[:, 0] ** 2).mean(1) + 1e-8).sqrt()
        gates = torch.sigmoid(router.network(torch.stack([count, variance, distance, size], 1)))
    t = state.t * gates[:, 1, None, None] if gates.shape[1] > 1 else state.t
    return State(state.mv, state.s * gates[:, 0, None, None], t)


def literal_forward(model: PaperModel, batch: Batch, species: Tensor) -> tuple[Tensor, Tensor | None]:
    """Atomic energies and direct forces of a `PaperModel`, by the paper's formulas."""
    edges = Edges(model, batch)
    channels = model.config.channels
    state = State.zeros(edges.atoms, channels, model.embedding.weight.dtype)
    state.put("scalar", model.embedding.weight[species][:, None])
    grades = [name for name, g in zip(GRADE_SLICES, range(4), strict=True) if g <= model.config.max_grade]
    tensors = [] if model.stf_at_output else [f"stf{degree}" for degree in model.config.stf_degrees]
    energies = torch.zeros(edges.atoms, dtype=state.mv.dtype)
    for index, (layer, readout) in enumerate(zip(model.layers, model.layer_readouts, strict=True)):
        state = interaction(layer, state, edges, [*grades, *tensors])
        if model.router is not None and index < len(model.layers) - 1:
            state = route(model, state, species, edges)
        energies = energies + readout(state.mv[:, 0])[:, 0]
    if model.output_message is not None:
        state.put("stf2", messages(model.output_message, state, edges).s)
    read = names_of(model.readout.layout)
    invariants = [state.mv[:, 0]] + [(squared(n, state.get(n)) + 1e-8).sqrt() for n in read if n.startswith("stf")]
    if model.readout.mix is not None:
        invariants.append(gp(track_linear(model.readout.mix, state).mv, state.mv)[:, 0])
    energies = energies + model.readout.network(torch.cat(invariants, 1))[:, 0]
    return energies, None if model.force_head is None else forces(model.force_head, state, edges)


def forces(head, state: State, edges: Edges) -> Tensor:
    b = state.mv[:, 4:7]
    vectors = state.mv[:, 1:4]
    if head.hodge:
        vectors = torch.cat([vectors, torch.stack([b[:, 2], -b[:, 1], b[:, 0]], 1)], 2)
    total = vectors @ head.weight
    if head.gate is not None:
        gate = head.gate((norm2(state.s) + 1e-8).sqrt())[edges.j][:, :, None]
        per_edge = gate * contract(state.s[edges.i] + state.s[edges.j], edges.r)
        total = total + edges.scatter(per_edge.mean(2))
    return total
