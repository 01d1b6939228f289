"""
How long to wait after failures: doubling, up to a ceiling, however many failures there were.

Everything in the shell that tries again takes its waits from here: writes, watches, the solver's process, pods.
"""

import random
from typing import Final

_MOST_DOUBLINGS: Final = 64
"""No ceiling is reached later: 2.0**1024 is no float any more, and an outage of a day has more failures than that."""


def doubled(first: float, longest: float, failures: int) -> float:
    """Give `first` seconds, doubled once for each of `failures`, and at most `longest`."""
    return min(first * 2.0 ** min(failures, _MOST_DOUBLINGS), longest)


def jittered(seconds: float, source: random.Random | None = None) -> float:
    """Give between half and all of `seconds`, so that those that failed together do not try again together."""
    uniform = source.uniform if source is not None else random.uniform
    return seconds * uniform(0.5, 1.0)  # spreads load, keeps no secret
