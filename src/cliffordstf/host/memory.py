"""Memory of this process, as the system counts it."""

from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_memory_mb(is_peak: bool = False) -> float:
    """Resident memory of this process now, or at its peak, MB; NaN where the system does not report it."""
    try:
        text = _STATUS.read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    key = "VmHWM:" if is_peak else "VmRSS:"
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(key)) / 1024
