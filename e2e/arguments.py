"""Arguments that several commands take."""

import argparse


def at_least_one(text: str) -> int:
    """Read a number of runs, seeds or pods."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
