"""Steps of dynamics with ASE and LAMMPS side by side: sizes, ranks, potentials of LAMMPS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cliffordstf.bench.speed.engines.lammps_runs import (
    CLASSICAL,
    ELEMENTS,
    AseRun,
    Case,
    LammpsRun,
    classical_styles,
)
from cliffordstf.bench.speed.timing import Rounds, Stopwatch, Timing, measure, ratio
from cliffordstf.bench.tables.table import Table
from cliffordstf.engine.export import export_native
from cliffordstf.host.denormals import without_denormals
from cliffordstf.integrations.lammps.build import build_plugin
from cliffordstf.model.build import build
from cliffordstf.model.shipped import load
from cliffordstf.train.provenance import describe_run

SIZES = (1_000, 10_000, 100_000)
MOLECULE = 21
"""Atoms of aspirin."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class LammpsSettings:
    """What is timed.

    Attributes:
        model: For copper, a preset of the default profile, untrained; float32.
        sizes: Atoms of boxes of copper, about.
        ranks: Numbers of processes; 1 is always among them.
        repetitions: Rounds of every case.
        molecule_model: For aspirin; trained, because the molecule would fall apart.
    """

    model: str = "default"
    sizes: tuple[int, ...] = SIZES
    ranks: tuple[int, ...] = (1, 2)
    repetitions: int = 5
    molecule_model: str = "rmd17-aspirin"


def cases(settings: LammpsSettings, styles: Sequence[str]) -> list[Case]:
    """Everything to time: both engines on each system, then more ranks for as many atoms and for as many each."""
    systems = [("aspirin", MOLECULE), *(("copper", size) for size in settings.sizes)]
    more = [ranks for ranks in settings.ranks if ranks > 1]
    found = [Case(engine, *system) for system in systems for engine in ("ase", "lammps")]
    found += [Case("lammps", "copper", size, ranks) for size in settings.sizes for ranks in more]
    found += [Case("lammps", "copper", size, ranks, ranks) for size in settings.sizes for ranks in more]
    return found + [Case(style, "copper", size) for style in styles for size in settings.sizes[:2]]


@without_denormals()
def run_lammps_study(settings: LammpsSettings, say: Say) -> dict[str, Any]:
    """Time all cases in turn, again and again; a mapping for a JSON file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        missing = classical_styles(folder)
        for style, reason in missing.items():
            say(f"left out: {style}: {reason}")
        potentials = {
            "aspirin": load(settings.molecule_model),
            "copper": build(settings.model, elements=ELEMENTS, seed=0, average_neighbours=42.0),
        }
        for system, potential in potentials.items():
            export_native(potential, folder / f"{system}.cstf")
        plugin = build_plugin()
        wanted = cases(settings, [style for style in CLASSICAL if style not in missing])
        stopwatches: dict[str, Stopwatch] = {}
        for number, case in enumerate(wanted):
            stopwatches[case.name] = (
                AseRun(case, potentials[case.system])
                if case.engine == "ase"
                else LammpsRun(case, folder / f"{case.system}.cstf", plugin, folder / str(number))
            )
        say(f"{len(wanted)} cases, {settings.repetitions} rounds")
        rounds = Rounds(settings.repetitions, limit=float("inf"), warm_calls=1, warm_up=0.0)
        timings = measure(stopwatches, rounds).timings
    rows = [_row(case, timings) for case in wanted]
    for row in rows:
        say(f"{row['name']}: {row['steps_per_second']:.4g} steps/s")
    return {**describe_run(), "settings": vars(settings), "missing": missing, "rows": rows}


def _row(case: Case, timings: dict[str, Timing]) -> dict[str, Any]:
    timing, atoms = timings[case.name], len(case.structure())
    per_atom_and_core = 1e6 * case.ranks / (atoms * case.steps)
    alone = Case(case.engine, case.system, case.atoms)
    ase = Case("ase", case.system, case.atoms)
    return {
        "name": case.name,
        "engine": case.engine,
        "system": case.system,
        "atoms": atoms,
        "ranks": case.ranks,
        "copies": case.copies,
        "steps_per_second": case.steps / timing.median,
        "microseconds_per_atom_and_core": per_atom_and_core * timing.median,
        "quartiles": [per_atom_and_core * value for value in timing.quartiles],
        "rounds": len(timing.seconds),
        "over_one_rank": _speed_up(case, alone, timings) if case.ranks > 1 else None,
        "over_ase": _speed_up(case, ase, timings) if case.engine == "lammps" and case.ranks == 1 else None,
    }


def _speed_up(case: Case, other: Case, timings: dict[str, Timing]) -> dict[str, float]:
    """Atom steps a second over those of another case, round by round."""
    found = ratio(timings[other.name], timings[case.name])
    factor = case.copies * case.steps / other.steps
    return {name: value if name == "rounds" else factor * value for name, value in found.items()}


def lammps_table(results: dict[str, Any]) -> Table:
    """A row for each case."""
    machine, settings = results["machine"], results["settings"]
    table = Table(
        f"Dynamics of aspirin with {settings['molecule_model']}, of copper with {settings['model']} (untrained) and "
        "with potentials of LAMMPS, float32, one thread a rank: medians "
        "of interleaved rounds (quartiles); speed-up: atoms · steps a second over one rank, or over ASE; "
        f"{machine['processor']}",
        ["engine", "system", "atoms", "ranks", "steps/s", "µs/atom/core", "over one rank", "over ASE"],
    )
    for row in results["rows"]:
        low, high = row["quartiles"]
        table.add(
            row["engine"],
            row["system"] + (f" x {row['copies']}" if row["copies"] > 1 else ""),
            str(row["atoms"]),
            str(row["ranks"]),
            f"{row['steps_per_second']:.3g}",
            f"{row['microseconds_per_atom_and_core']:.3g} ({low:.3g} to {high:.3g})",
            *("" if row[key] is None else f"{row[key]['median']:.2f}" for key in ("over_one_rank", "over_ase")),
        )
    return table
