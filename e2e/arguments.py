"""Arguments that several commands take."""

import argparse
import math


def at_least_one(text: str) -> int:
    """Read a number of runs, seeds or pods."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds_or_never(text: str) -> float:
    """Read a time after which a pod starves."""
    if text == "never":
        return math.inf
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither `never` nor a number of seconds")
    return float(text)


def per_cent(text: str) -> int:
    """Read a part of the whole, such as the GPUs in use."""
    if not text.isdigit() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 to 100")
    return int(text)
