"""Small helpers for what users write and are told."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest choice, or an empty string."""
    nearest = get_close_matches(word, list(choices), n=1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""


def names_in(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(","))
