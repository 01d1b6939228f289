"""`dovetail replay`: repeat a saved decision."""

import argparse
from pathlib import Path

from scheduler.cli import simulate
from scheduler.cli.arguments import add_format, refuse


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The same file gives the same plan on every machine. The exit status is that of `dovetail simulate`."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the saved decision")
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, decide, print."""
    from scheduler.simulation import simulator  # noqa: PLC0415 - the solver takes a second to import

    try:
        asked = simulator.load(options.file)
    except simulator.SavedError as error:
        return refuse(str(error))
    return simulate.show(simulator.answer(asked), options.output)
