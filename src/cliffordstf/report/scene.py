"""What the 3D viewer of the page draws, as plain data."""

import json
from itertools import product
from typing import Any

import numpy as np
from ase.data import covalent_radii
from ase.data.colors import jmol_colors
from ase.geometry import wrap_positions

from cliffordstf.data.neighbours import edge_vectors, neighbour_list
from cliffordstf.data.structure import FloatArray, Structure, symbol
from cliffordstf.train.evaluation import Evaluation

BOND_TOLERANCE = 1.2
"""Atoms are drawn as bonded up to this many times the sum of their covalent radii."""
MOST_ATOMS = 3000
"""Larger structures are left out of the viewer: the page would grow too large."""


def scene(evaluation: Evaluation, index: int, title: str) -> dict[str, Any]:
    """One structure: positions and box in Å, forces in eV/Å (null where there are none), bonds, first view."""
    here = evaluation.structure_of_atom == index
    structure = _wrapped(evaluation.frames[index].structure)
    bonds, stubs = _bonds(structure)
    return {
        "title": title,
        "symbols": [symbol(int(number)) for number in structure.numbers],
        "positions": _rounded(structure.positions, 3),
        "predicted": _rows(evaluation.forces[here]),
        "true": _rows(evaluation.force_labels[here]),
        "bonds": bonds,
        "stubs": stubs,
        "box": _box_edges(structure),
        "view": _rounded(_first_view(structure), 4),
    }


def looks(evaluation: Evaluation) -> dict[str, dict[str, Any]]:
    """Colour and covalent radius (Å) of each element that occurs."""
    result = {}
    for number in np.unique(evaluation.numbers):
        safe = min(max(int(number), 0), len(jmol_colors) - 1)
        colour = "#" + "".join(f"{round(channel * 255):02x}" for channel in jmol_colors[safe])
        result[symbol(int(number))] = {"colour": colour, "radius": round(float(covalent_radii[safe]), 3)}
    return result


def as_script_data(value: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _wrapped(structure: Structure) -> Structure:
    """Atoms moved into the box along periodic directions, so that the box is drawn around them."""
    if not structure.pbc.any():
        return structure
    positions = wrap_positions(structure.positions, structure.full_cell(), structure.pbc, eps=0.02)
    return Structure(structure.numbers, positions, structure.cell, structure.pbc, structure.name)


def _bonds(structure: Structure) -> tuple[list[list[int]], list[list[float]]]:
    """Pairs of bonded atoms, and for bonds that leave the box an atom with the way to the bond's middle, Å."""
    radii = covalent_radii[np.clip(structure.numbers, 0, len(covalent_radii) - 1)]
    edges = neighbour_list(structure, 2 * BOND_TOLERANCE * float(radii.max()))
    vectors = edge_vectors(structure.positions, structure.cell, edges)
    limit = BOND_TOLERANCE * (radii[edges.senders] + radii[edges.receivers])
    bonded = np.linalg.norm(vectors, axis=1) <= limit
    inside = (edges.shifts == 0).all(axis=1)
    once = bonded & inside & (edges.senders > edges.receivers)
    leaving = bonded & ~inside
    pairs = np.stack([edges.receivers[once], edges.senders[once]], axis=1).tolist()
    halves = _rounded(vectors[leaving] / 2, 3)
    stubs = [[int(atom), *half] for atom, half in zip(edges.receivers[leaving], halves, strict=True)]
    return pairs, stubs


def _box_edges(structure: Structure) -> list[list[list[float]]]:
    """Start and end of every edge spanned by the periodic lattice vectors, Å; none for a molecule."""
    vectors = structure.cell[structure.pbc]
    corners = list(product((0, 1), repeat=len(vectors)))
    edges = []
    for corner in corners:
        for axis, flag in enumerate(corner):
            if flag == 0:
                start = np.array(corner, dtype=np.float64) @ vectors
                edges.append(_rounded(np.stack([start, start + vectors[axis]]), 3))
    return edges


def _first_view(structure: Structure) -> FloatArray:
    """Rotation, (3, 3), that shows a molecule's broad side, or a box slightly from above, a to the right, c up."""
    tilt, turn = np.radians(-72.0), np.radians(-24.0)
    if structure.pbc.any():
        about_z = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1.0]])
        about_x = np.array([[1.0, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
        return np.asarray(about_x @ about_z)
    centred = structure.positions - structure.positions.mean(axis=0)
    _, _, axes = np.linalg.svd(np.vstack([centred, 1e-6 * np.eye(3)]))
    axes[2] = np.cross(axes[0], axes[1])  # A rotation, never a mirror: chirality must survive.
    return np.asarray(axes)


def _rounded(values: FloatArray, digits: int) -> list[Any]:
    # Adding zero turns -0.0 into 0.0.
    return list((np.round(values, digits) + 0.0).tolist())


def _rows(vectors: FloatArray) -> list[list[float] | None]:
    return [_rounded(row, 4) if np.isfinite(row).all() else None for row in vectors]
