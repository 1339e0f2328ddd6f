"""Wall-clock time and peak memory, always measured side by side in one run."""
