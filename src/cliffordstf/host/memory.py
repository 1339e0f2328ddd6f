"""Memory of a process, as the system counts it."""

from pathlib import Path


def resident_memory_mb(is_peak: bool = False, process: int | None = None) -> float:
    """Resident memory now, or at its peak, MiB; NaN where the system does not report it.

    Args:
        is_peak: At its peak.
        process: Number of another process; this one by default.
    """
    key = "VmHWM:" if is_peak else "VmRSS:"
    try:
        lines = Path("/proc", "self" if process is None else str(process), "status").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    found = (float(line.split()[1]) / 1024 for line in lines.splitlines() if line.startswith(key))
    return next(found, float("nan"))
