"""Settings of OpenMP that are read once, when its library is loaded."""

import os

SPINS = "100000"
"""How long OpenMP threads spin before they sleep, about 0.1 ms: waking a sleeper takes as long as a small step's work,
and endless spinning slows everything down as soon as another program wants the same cores."""


def spin_briefly() -> None:
    """Let idle OpenMP threads of this process, and of those that it starts, spin for a short time only.

    For programs that own their process. Has an effect only before torch is loaded, and never overrides the user's
    choice.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
