"""What `bench speed` measured, as tables."""

from itertools import combinations
from math import inf
from typing import Any

from cliffordstf.bench.speed.limits.machine_peaks import share_text
from cliffordstf.bench.speed.speed_study import ratio_name
from cliffordstf.bench.tables.formatting import rounds_done, short_commit
from cliffordstf.bench.tables.table import Table

PEERS = ("mace-l1", "mace-l2", "mace-l3", "painn")


def speed_tables(results: dict[str, Any]) -> list[Table]:
    """Contenders and ratios, and growing boxes, roofline and profile as far as the contenders have them."""
    tables = [_contenders(results), _ratios(results), _boxes(results), _per_core(results)]
    if results["profile"] is not None:
        tables += [_roofline(results), _profile(results)]
    return [table for table in tables if table.rows]


def _contenders(results: dict[str, Any]) -> Table:
    machine = results["machine"]
    title = (
        f"{results['system']} (inference: energy and forces; training: forward, loss, backward, Adam); "
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}, "
        f"commit {short_commit(results['commit'], 9)}{rounds_done(results)}"
    )
    heads = ["model", "parameters", "inference, ms", "training, ms", "one molecule, ms", "peak of training, MB"]
    table = Table(title, heads)
    for row in sorted(results["rows"], key=training_order):
        peak = row["training_peak_mb"]
        times = (number_text(row["inference_ms"]), number_text(row["training_ms"]), number_text(row["latency_ms"], 1))
        table.add(row["name"], f"{row['parameters']:,}", *times, f"{peak:.0f}" if peak else "")
    return table


def training_order(row: dict[str, Any]) -> float:
    """Sort key: fast to slow in training; contenders that were left out of it come last."""
    return inf if row["training_ms"] is None else float(row["training_ms"])


def number_text(value: float | None, digits: int = 0) -> str:
    """A number; nothing for what was not measured."""
    return "" if value is None else f"{value:.{digits}f}"


def _ratios(results: dict[str, Any]) -> Table:
    spreads = results["ratios"]["spread"]
    kinds = ("inference", "training", "latency")
    table = Table("Ratios of times, median (quartiles; rounds)", ["ratio", *kinds])

    def cell(name: str) -> str:
        found = spreads.get(name)
        return "" if found is None else _spread(found)

    def add(label: str, names: list[str]) -> None:
        cells = [cell(name) for name in names]
        if any(cells):
            table.add(label, *cells)

    add("literal transcription / paper/full", [f"paper_full_{kind}_speedup_over_literal" for kind in kinds])
    for mine, other in _pairs(results):
        add(f"{mine} / {other}", [ratio_name(mine, kind, other) for kind in kinds])
    return table


def _pairs(results: dict[str, Any]) -> list[tuple[str, str]]:
    """All pairs of models that were asked for by name; of the many otherwise only some."""
    if results["settings"].get("models") is not None:
        return list(combinations([row["name"] for row in results["rows"]], 2))
    return [(f"default lmax {lmax}", peer) for lmax in (2, 3) for peer in PEERS]


def _boxes(results: dict[str, Any]) -> Table:
    table = Table(
        "Periodic box: fcc copper, 42 neighbours within 5 Å, models for one element: default with its 48 channels, "
        "MACE L=1 with 62",
        ["model", "atoms", "µs per atom", "over that of 10^3 atoms", "kB per atom"],
    )
    for row in results["boxes"]:
        memory = row["kilobytes_per_atom"]
        time, over = f"{row['microseconds_per_atom']:.0f}", row["time_per_atom_over_thousand"]
        table.add(row["name"], f"{row['atoms']:,}", time, _spread(over), f"{memory:.0f}" if memory else "")
    return table


def _per_core(results: dict[str, Any]) -> Table:
    """Of results that have them; older ones do not."""
    table = Table(
        "Energy and forces by the ASE calculator, float32, µs per atom and core: median (quartiles; rounds); "
        "symmetrix-xl: an exported MACE with 128 scalar and 128 vector channels",
        ["model", "system", "atoms", "threads", "µs per atom and core"],
    )
    for row in results.get("per_core", []):
        low, high = row["quartiles"]
        time = f"{row['microseconds_per_atom_and_core']:.0f} ({low:.0f} to {high:.0f}; {row['rounds']})"
        table.add(row["name"], row["system"], f"{row['atoms']:,}", str(row["threads"]), time)
    return table


def _spread(found: dict[str, float]) -> str:
    return f"{found['median']:.2f} ({found['low']:.2f} to {found['high']:.2f}; {found['rounds']})"


def _roofline(results: dict[str, Any]) -> Table:
    machine, operator = results["roofline"]["machine"], results["roofline"]["edge_operator"]
    table = Table(
        f"Roofline: {machine.get('arithmetic', 'matrix products')} {machine['gflops']:.0f} GFLOP/s, copies "
        f"{machine['bandwidth']:.0f} GB/s; costliest "
        f"edge operator of {operator['model']}",
        ["pass", "GFLOP", "GB", "GFLOP/s", "share of the roofline"],
    )
    for name, values in operator.items():
        if name == "model":
            continue
        rate = values["gflop"] / values["seconds"]
        amounts = (f"{values['gflop']:.2f}", f"{values['gigabytes']:.2f}", f"{rate:.0f}")
        table.add(name, *amounts, share_text(values["share"]))
    return table


def _profile(results: dict[str, Any]) -> Table:
    profile = results["profile"]
    table = Table(f"Profile of {profile['model']}: shares of a step", ["part", "inference", "training"])
    kinds = ("inference", "training")
    parts = dict.fromkeys(part for kind in kinds for part in profile[kind] if part != "milliseconds")
    for part in parts:
        table.add(part, *(f"{100 * profile[kind].get(part, 0.0):.0f} %" for kind in kinds))
    return table
