"""`dovetail defrag`: the old name of `dovetail repair plan`."""

import argparse

from scheduler.cli.arguments import warn
from scheduler.cli.repairing import moves_planning


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `dovetail repair plan`."""
    moves_planning.add(parser)


def execute(options: argparse.Namespace) -> int:
    """Warn, and plan."""
    warn("`dovetail defrag` is now `dovetail repair plan`; the old name goes with the next release")
    return moves_planning.execute(options)
