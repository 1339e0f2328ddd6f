"""How errors, and how long was measured, are written in tables."""

from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any

FEW_PASSES = 10
"""Fewer than so many are written with a decimal."""


def spread(values: Sequence[float], digits: int) -> str:
    """Mean, and standard deviation over seeds if there are several."""
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {stdev(values):.{digits}f}"


def errors(metrics: Sequence[dict[str, Any]]) -> str:
    """Energy MAE, meV / force MAE, meV/Å (force cosine), over seeds; nothing for no runs."""
    if not metrics:
        return ""
    kinds = (("energy_mae_mev", 2), ("force_mae_mev_per_a", 2), ("force_cosine", 5))
    energy, forces, cosine = (spread([float(m[name]) for m in metrics], digits) for name, digits in kinds)
    return f"{energy} / {forces} ({cosine})"


def baseline_errors(metrics: dict[str, Any]) -> str:
    """The same of the baseline model: a constant energy and no forces."""
    return f"{metrics['baseline_energy_mae_mev']:.0f} / {metrics['baseline_force_mae_mev_per_a']:.0f} (0)"


def passes(results: Sequence[dict[str, Any]]) -> str:
    """Passes over the training set that the budget allowed, and of how many where the protocol says: `124 of 250`."""
    done = [float(result.get("passes", result["epochs"])) for result in results]  # older results count begun ones
    texts = [f"{value:.1f}" if value < FEW_PASSES and value % 1 else f"{value:.0f}" for value in (min(done), max(done))]
    text = texts[0] if texts[0] == texts[1] else " to ".join(texts)
    asked = {result["config"]["epochs"] for result in results if isinstance(result["config"]["epochs"], int)}
    return f"{text} of {max(asked)}" if asked else text


def step_rate(results: Sequence[dict[str, Any]]) -> str:
    """Updates a second; nothing for runs that were over before a clock could tell."""
    rates = [result["steps"] / result["seconds"] for result in results if result["seconds"]]
    return f"{mean(rates):.1f}" if rates else ""


Length = tuple[float, int, int]
"""Seconds, updates and, where there is neither, passes that a run was given; 0 for no such limit."""


def length(result: dict[str, Any]) -> Length:
    """How long a run was to be; tables put equal ones together."""
    config = result.get("config", {})
    seconds, steps, passes = result.get("budget") or 0.0, config.get("steps") or 0, config.get("epochs")
    return seconds, steps, 0 if seconds or steps or not isinstance(passes, int) else passes


def length_text(each: Length) -> str:
    """`10 min`, `600 steps` or `250 passes`."""
    seconds, steps, passes = each
    parts = (f"{seconds / 60:g} min" if seconds else "", f"{steps} steps" if steps else "")
    return " or ".join(filter(None, parts)) or f"{passes} passes"


def short_commit(commit: str, digits: int = 7) -> str:
    """The beginning of a commit; the mark of a tree with changes stays."""
    return commit[:digits] + ("+" if commit.endswith("+") else "")


def by_baseline(results: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Results that one baseline is right for, by what they have in common: protocol, kind of energy and references."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        reference = result["config"]["data"]["reference"]
        parts = [
            f"protocol {result['protocol']}",
            f"{result['energy']} energies" if "energy" in result else "",
            "" if reference == "auto" else f"references {'given' if isinstance(reference, dict) else reference}",
        ]
        groups.setdefault(", ".join(filter(None, parts)), []).append(result)
    return dict(sorted(groups.items()))


def titled(title: str, results: Sequence[dict[str, Any]]) -> str:
    """A table's title with the circumstances of what it shows."""
    return "; ".join(filter(None, (title, circumstances(results))))


def circumstances(results: Sequence[dict[str, Any]]) -> str:
    """Split, seeds, processors, threads and commits of runs, as far as they say so."""
    machines = {(r["machine"]["threads"], r["machine"]["processor"]) for r in results if "machine" in r}
    where = [f"{threads} thread{'s' * (threads > 1)} of {name}" for threads, name in sorted(machines)]
    commits = dict.fromkeys(short_commit(r["commit"]) for r in sorted(results, key=_date) if r.get("commit"))
    parts = [
        _several("split", sorted({str(r["split"]) for r in results if "split" in r})),
        _several("seed", sorted({str(r["seed"]) for r in results if "seed" in r})),
        " and ".join(where),
        _several("commit", list(commits)),
    ]
    return "; ".join(part for part in parts if part)


def machine_of(result: dict[str, Any]) -> tuple[str, int]:
    """Accelerator or processor, and threads, of a run: times are equal on one machine only."""
    machine = result.get("machine", {})
    return str(machine.get("accelerator") or machine.get("processor", "")), machine.get("threads", 0)


def sizes(results: Sequence[dict[str, Any]]) -> str:
    """How many structures were trained on, as far as runs say so: a sample should not pass for the whole."""
    counts = sorted({result["structures"]["train"] for result in results if "structures" in result})
    return f" ({' or '.join(f'{count:,}' for count in counts)} training structures)" if counts else ""


def split_head(name: str, metrics: Sequence[dict[str, Any]]) -> str:
    """Name of a test set with its size, and how many of its structures were learned, if any were."""
    counts = " or ".join(f"{n:,}" for n in sorted({m["n_structures"] for m in metrics if "n_structures" in m}))
    seen = max((m.get("n_also_in_training", 0) for m in metrics), default=0)
    said = [f"{counts} structures", *([f"{seen:,} ALSO IN THE TRAINING SET"] if seen else [])] if counts else []
    return f"{name} ({', '.join(said)})" if said else name


def _several(what: str, values: Sequence[str]) -> str:
    return f"{what}{'s' * (len(values) > 1)} {', '.join(values)}" if values else ""


def _date(result: dict[str, Any]) -> str:
    return str(result.get("date", ""))


def rounds_done(speed: dict[str, Any]) -> str:
    """What budget `bench speed` was given and how many rounds it made; nothing for results that do not say so yet."""
    if "rounds" not in speed:
        return ""
    rounds, budget = speed["rounds"], speed["rounds"]["budget_s"]
    asked = "no budget" if budget is None else f"budget {f'{budget / 60:g} min' if budget >= 60 else f'{budget:g} s'}"
    counts = [
        f"{kind} {fewest}" if fewest == most else f"{kind} {fewest} to {most}"
        for kind, (fewest, most) in rounds["done"].items()
    ]
    return f"; {asked}, rounds: {', '.join(counts)}"
