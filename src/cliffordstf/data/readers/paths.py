"""Names in the order people expect."""

import re


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key under which `data_2` comes before `data_10`.

    >>> sorted(["data_10", "data_2"], key=natural_key)
    ['data_2', 'data_10']
    """
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
