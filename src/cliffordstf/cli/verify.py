"""`cliffordstf verify`: print the coupling table and prove the algebra and the symmetries of every preset."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from cliffordstf.host.files import write_json
from cliffordstf.verify.algebra import (
    COUPLING_TOLERANCE,
    THEOREM_TOLERANCE,
    CouplingCheck,
    check_couplings,
    check_theorem,
)
from cliffordstf.verify.symmetries import TOLERANCES, SymmetryCheck, check_variant, variants


def verify(
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")] = None,
    lmax: Annotated[int, typer.Option(min=1, max=6, help="Highest degree of the coupling table.")] = 4,
    samples: Annotated[int, typer.Option(min=1, help="Random samples per coupling.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
) -> None:
    """Check the algebra against Wigner 3j symbols and the symmetries of every preset; exit 1 if anything fails."""
    console = Console()
    couplings = check_couplings(lmax, samples, seed)
    console.print(_coupling_table(couplings, samples))
    theorem = check_theorem(samples, seed)
    theorem_ok = theorem < THEOREM_TOLERANCE
    console.print(
        f"Theorem 1: u_i v_j = δ_ij <uv>_0 / 3 + ε_ijk (★<uv>_2)_k / 2 + STF2(u,v)_ij, "
        f"largest error {theorem:.1e} (bound {THEOREM_TOLERANCE:.0e}): {_mark(theorem_ok)}\n"
    )
    presets: dict[str, dict[torch.dtype, SymmetryCheck]] = {}
    for label in track(variants(), description="presets", console=console, transient=True):
        presets[label] = {dtype: check_variant(label, dtype, seed) for dtype in TOLERANCES}
    console.print(_preset_table(presets))
    passed = (
        theorem_ok
        and all(check.passed for check in couplings)
        and all(check.passed(TOLERANCES[dtype]) for checks in presets.values() for dtype, check in checks.items())
    )
    if json_file is not None:
        report = _as_json(couplings, theorem, presets, passed)
        write_json(json_file, report)
        console.print(f"written to {json_file}")
    console.print("all checks passed" if passed else "[bold red]some checks failed[/]")
    raise typer.Exit(0 if passed else 1)


def _mark(passed: bool) -> str:
    return "[green]ok[/]" if passed else "[bold red]FAIL[/]"


def _coupling_table(checks: list[CouplingCheck], samples: int) -> Table:
    table = Table(
        title=f"Couplings, largest error over {samples} samples against Wigner 3j (bound {COUPLING_TOLERANCE:.0e})"
    )
    for name in ("degrees", "formula", "parity"):
        table.add_column(name, no_wrap=True)
    for name in ("terms", "ours / CG", "max error", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for check in checks:
        entry = check.coupling
        table.add_row(
            f"{entry.l1} x {entry.l2} -> {entry.l3}",
            entry.name,
            "pseudo (ε)" if entry.pseudo else "true",
            str(len(entry.terms)),
            f"{check.factor:+.4f}",
            f"{check.max_error:.1e}",
            _mark(check.passed),
        )
    return table


def _preset_table(presets: dict[str, dict[torch.dtype, SymmetryCheck]]) -> Table:
    bounds = ", ".join(f"{bound:.0e} in {str(dtype).removeprefix('torch.')}" for dtype, bound in TOLERANCES.items())
    table = Table(
        title=f"Symmetries of energy, forces and stress, largest relative error (bound {bounds})",
        caption="A dash: the paper's models claim SO(3) only. Forces are each preset's own, direct or conservative.",
    )
    table.add_column("preset", no_wrap=True)
    for name in ("bits", "rotate", "invert", "shift", "permute", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for label, checks in presets.items():
        for dtype, check in checks.items():
            errors = check.errors()
            names = ("rotation", "inversion", "translation", "permutation")
            cells = [f"{errors[name]:.1e}" if name in errors else "-" for name in names]
            table.add_row(label, str(dtype).removeprefix("torch.float"), *cells, _mark(check.passed(TOLERANCES[dtype])))
    return table


def _as_json(
    couplings: list[CouplingCheck],
    theorem: float,
    presets: dict[str, dict[torch.dtype, SymmetryCheck]],
    passed: bool,
) -> dict[str, Any]:
    return {
        "passed": passed,
        "couplings": [
            {
                "l1": check.coupling.l1,
                "l2": check.coupling.l2,
                "l3": check.coupling.l3,
                "name": check.coupling.name,
                "pseudo": check.coupling.pseudo,
                "terms": [[i, j, k, str(value)] for i, j, k, value in check.coupling.terms],
                "factor_to_clebsch_gordan": check.factor,
                "max_error": check.max_error,
                "passed": check.passed,
            }
            for check in couplings
        ],
        "theorem_1": {"max_error": theorem, "passed": theorem < THEOREM_TOLERANCE},
        "presets": {
            label: {
                str(dtype).removeprefix("torch."): {
                    **check.errors(),
                    "claims": "O(3)" if check.inversion is not None else "SO(3)",
                    "passed": check.passed(TOLERANCES[dtype]),
                }
                for dtype, check in checks.items()
            }
            for label, checks in presets.items()
        },
    }
