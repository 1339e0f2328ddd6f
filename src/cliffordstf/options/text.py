"""Small helpers for what users write and are told."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest choice, or an empty string."""
    nearest = nearest_of(word, choices)
    return f" (did you mean '{nearest}'?)" if nearest is not None else ""


def nearest_of(word: str, choices: Iterable[str]) -> str | None:
    """The choice most like a word; None if none is."""
    nearest = get_close_matches(word, list(choices), n=1)
    return nearest[0] if nearest else None


def names_in(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(","))
