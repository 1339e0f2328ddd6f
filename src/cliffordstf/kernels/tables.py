"""Plans as flat tables of indices and coefficients, in the layout of the C++ kernels and of exported models.

Tables of indices are int32 with two axes, coefficients float64.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from cliffordstf.algebra.frames import aligned_numbers, generators, raising, track_basis
from cliffordstf.algebra.tracks import BIVECTOR, PSEUDOSCALAR, SCALAR, VECTOR, Track
from cliffordstf.kernels.plan import EdgePlan, GatePlan, LinearPlan, NodePlan

Tables = dict[str, NDArray[Any]]
Placed = list[tuple[int, Track]]
"""Tracks with their first components."""

TINY = 1e-14
_FIRST = {SCALAR: 0, PSEUDOSCALAR: 1, VECTOR: 2, BIVECTOR: 11}
_STF2 = 20


def linear_tables(plan: LinearPlan) -> Tables:
    """Of every term its tracks: first components on both sides, components, matrix (below zero for none)."""
    return {f"tracks{index}": _indices(term.tracks, 4) for index, term in enumerate(plan.terms)}


def gate_tables(plan: GatePlan) -> Tables:
    """First component and number of components of the gated tracks."""
    return {"tracks": _indices(plan.tracks, 2)}


def node_tables(plan: NodePlan) -> Tables:
    """Paths and their entries in three orders: by component of the result, of the left and of the right operand."""
    paths: list[list[int]] = []
    entries: list[tuple[int, int, int, float]] = []
    for path, table in zip(plan.paths, plan.tables(torch.float64, torch.device("cpu")), strict=True):
        a, b, c = path.coupling.a, path.coupling.b, path.coupling.c
        terms = [(int(i), int(j), int(k), float(table[i, j, k])) for i, j, k in table.nonzero()]
        orders = (
            sorted((k, i, j, v) for i, j, k, v in terms),
            sorted((i, k, j, v) for i, j, k, v in terms),
            sorted((j, k, i, v) for i, j, k, v in terms),
        )
        starts = [len(entries) + index * len(terms) for index in range(3)]
        for order in orders:
            entries += order
        paths.append([path.left, path.right, path.target, a.dims, b.dims, c.dims, path.weight, len(terms), *starts])
    return {
        "paths": _indices(paths, 11),
        "entries": _indices([entry[:3] for entry in entries], 3),
        "values": np.array([entry[3] for entry in entries], dtype=np.float64),
    }


def convolution_tables(plan: EdgePlan) -> tuple[Tables, dict[str, int]]:
    """Tables of a convolution in the frames of the edges, and its sizes: `numbers` of an edge and channel, `lmax`."""
    numbers, folds, factors = frame_numbers(plan)
    lmax = max(2, plan.degree)
    tables: Tables = {"fold": _indices(folds, 2), "fold_value": np.array(factors, dtype=np.float64)}
    for name, dims, end in (("source", plan.source_dims, 0), ("target", plan.target_dims, 1)):
        found = _side(dims, placed_tracks(plan, end), numbers, end)
        tables |= {f"{name}.{key}": table for key, table in found.items()}
    return tables | _raise(lmax), {"numbers": len(numbers), "lmax": lmax}


def frame_size(lmax: int) -> int:
    """Numbers that make up the frame of an edge."""
    return _STF2 + sum((2 * degree + 1) ** 2 for degree in range(2, lmax + 1))


@dataclass(frozen=True)
class FrameCost:
    """Multiply-adds of a plan in the frame of an edge, per channel.

    Attributes:
        source_matrices, target_matrices: To turn features, or results, into the frame or back.
        numbers: Numbers that the paths add up to.
        products: To multiply features by them.
        generators: To find how features and results change with the direction.
    """

    source_matrices: int
    target_matrices: int
    numbers: int
    products: int
    generators: int


def frame_cost(plan: EdgePlan) -> FrameCost:
    """What the operator cannot do without."""
    numbers = frame_numbers(plan)[0]
    matrices, turns = [], 0
    for end in (0, 1):
        rows = [(track, _rows(start, track, numbers, end)) for start, track in placed_tracks(plan, end)]
        matrices.append(sum(track.dims * levels[0] for track, levels in rows))
        inside = (generators(track)[:, : levels[1], : levels[1]] for track, levels in rows)
        turns += sum(int(np.count_nonzero(np.abs(part) > TINY)) for part in inside)
    source, target = matrices
    return FrameCost(source, target, len(numbers), sum(1 + both for *_, both in numbers), turns // 2)


def placed_tracks(plan: EdgePlan, end: int) -> Placed:
    """Tracks of the features (0) or of the result (1)."""
    found = {(p.target, p.coupling.c) if end else (p.source, p.coupling.a) for p in plan.paths}
    return sorted(found, key=lambda placed: placed[0])


def frame_numbers(plan: EdgePlan) -> tuple[list[list[int]], list[tuple[int, int]], list[float]]:
    """Numbers (source, target, has a second component), which are sums of which rows of the weights, and factors."""
    places: dict[tuple[int, int], int] = {}
    numbers: list[list[int]] = []
    folds, factors = [], []
    for path in plan.paths:
        found = aligned_numbers(path.coupling) * path.scale
        for (component, both), factor in zip(_orders(len(found) - 1), found, strict=True):
            if abs(factor) < TINY:
                continue
            key = (path.source + component, path.target + component)
            if key not in places:
                places[key] = len(numbers)
                numbers.append([*key, both])
            folds.append((places[key], path.weight))
            factors.append(float(factor))
    return numbers, folds, factors


def _indices(values: ArrayLike, columns: int) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32).reshape(-1, columns)


def _matrix_place(track: Track) -> int:
    """Where the matrix of a track begins in a frame."""
    return _FIRST.get(track, frame_size(track.degree - 1))


def _orders(degree: int) -> list[tuple[int, int]]:
    """First component of each order, and whether there is a second one."""
    return [(0, 0), *((2 * order - 1, 1) for order in range(1, degree + 1))]


def _rows(start: int, track: Track, numbers: list[list[int]], end: int) -> list[int]:
    """Components that a track has in the frame: those of orders that a path reaches, with one more, with two more."""
    reached = [number[end] - start for number in numbers if start <= number[end] < start + track.dims]
    order = max((component + 1) // 2 for component in reached)
    return [min(track.dims, 2 * (order + level) + 1) for level in range(3)]


def _side(components: int, tracks: Placed, numbers: list[list[int]], end: int) -> Tables:
    """Tracks of one side; `end` is the end of the numbers that belongs to it."""
    rows = [_rows(start, track, numbers, end) for start, track in tracks]
    heads = [[start, track.degree, _matrix_place(track)] for start, track in tracks]
    orders: list[list[int]] = []
    links: list[tuple[int, int]] = []
    for start, track in tracks:
        for component, both in _orders(track.degree):
            mine = [(n[1 - end], i) for i, n in enumerate(numbers) if n[end] == start + component]
            orders.append([start + component, both, len(links), len(links) + len(mine)])
            links.extend(mine)
    tables: Tables = {
        "track": _indices([[*head, *levels] for head, levels in zip(heads, rows, strict=True)], 6),
        "order": _indices(orders, 4),
        "link": _indices(links, 2),
    }
    for level, name in ((1, "turn"), (2, "second_turn")):
        turns = np.zeros((2, components, components))
        for (start, track), levels in zip(tracks, rows, strict=True):
            inside = slice(start, start + levels[level])
            turns[:, inside, inside] = generators(track)[:, : levels[level], : levels[level]]
        tables |= {f"{name}.{key}": table for key, table in _turns(turns).items()}
    given = np.zeros((components, components))
    for start, track in tracks:
        basis = track_basis(track)
        # Gradients of results change in the opposite way to results.
        given[start : start + track.dims, start : start + track.dims] = np.linalg.inv(basis).T if end else basis
    for name, matrix in (("given", given), ("taken", given.T)):
        found = [np.flatnonzero(np.abs(row) > TINY) for row in matrix]
        tables[f"{name}.pointers"] = _indices(np.cumsum([0, *map(len, found)]), 1)
        tables[f"{name}.column"] = _indices(np.concatenate(found), 1)
        tables[f"{name}.value"] = matrix[np.abs(matrix) > TINY]
    return tables


def _turns(matrices: NDArray[Any]) -> Tables:
    rows, axes, columns = np.nonzero(np.abs(matrices.transpose(1, 0, 2)) > TINY)
    ends = np.arange(2 * matrices.shape[1] + 1)
    return {
        "element": _indices(np.stack([columns, axes], axis=1), 2),
        "pointers": _indices(np.searchsorted(2 * rows + axes, ends), 1),
        "value": matrices[axes, rows, columns],
    }


def _raise(lmax: int) -> Tables:
    """Entries that make the matrix of each degree from that of the degree below."""
    pointers, entries, values = [0, 0, 0], [], []
    for degree in range(2, lmax + 1):
        matrix = raising(degree)
        for row, first, lower in np.argwhere(np.abs(matrix) > TINY):
            entries.append([row, first, lower])
            values.append(matrix[row, first, lower])
        pointers.append(len(entries))
    return {
        "raise_pointers": _indices(pointers, 1),
        "raise_entry": _indices(entries, 3),
        "raise_value": np.array(values, dtype=np.float64),
    }
