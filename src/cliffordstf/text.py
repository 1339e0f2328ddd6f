"""Small helpers for messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest choice, or an empty string."""
    nearest = get_close_matches(word, list(choices), n=1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
