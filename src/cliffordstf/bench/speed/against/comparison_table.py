"""Two checkouts side by side, as a table."""

from typing import Any

from cliffordstf.bench.speed.against.comparison import what_is_timed
from cliffordstf.bench.tables.formatting import short_commit
from cliffordstf.bench.tables.table import Table


def against_table(results: dict[str, Any]) -> Table:
    """A row for everything that was measured of both codes; more than 1 means that the new one is faster."""
    machine, old = results["machine"], short_commit(results["against"]["commit"], 9)
    table = Table(
        f"Commit {old} (old) and {short_commit(results['commit'] or 'unknown', 9)} (new) side by side, the same "
        "weights, float32: latency: one molecule; inference: 32 molecules as one structure, both by the ASE "
        "calculator; training: an update (auto: the default batch size, about 100 atoms); box: fcc copper; ratios: "
        "median (quartiles; rounds); "
        f"{machine['processor']}, {machine['threads']} threads",
        ["model", "system", "what", "old, ms", "new, ms", "old / new", "old, kB/atom", "new, kB/atom", "difference"],
    )
    for row in results["rows"]:
        table.add(row["model"], row["system"], what_is_timed(row), *_times(row), *_memory(row), _difference(row))
    return table


def _times(row: dict[str, Any]) -> tuple[str, str, str]:
    """Of the old and the new code, and their ratio; nothing for a box that was not timed."""
    if "seconds" not in row:
        return "", "", ""
    found = row["old_over_new"]
    spread = f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f}; {found['rounds']})"
    return f"{1e3 * row['seconds']['old']:.2f}", f"{1e3 * row['seconds']['new']:.2f}", spread


def _memory(row: dict[str, Any]) -> tuple[str, str]:
    known = row.get("kilobytes_per_atom", {})
    old, new = (known.get(side) for side in ("old", "new"))
    return "" if old is None else f"{old:.0f}", "" if new is None else f"{new:.0f}"


def _difference(row: dict[str, Any]) -> str:
    """Largest difference of force components as a share of the largest one."""
    if "largest_force" not in row:
        return ""
    return f"{row['largest_difference_of_forces'] / max(row['largest_force'], 1e-30):.0e}"
