"""`dovetail replay`: repeat a saved decision."""

import argparse
from pathlib import Path
from typing import Any

from scheduler.cli import simulate
from scheduler.cli.arguments import add_format, refuse


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Repeat a decision that `dovetail simulate --save`, or the scheduler after a defect, saved to a file."
    parser = commands.add_parser(
        "replay",
        help=text,
        description=text,
        epilog="The same file gives the same plan on every machine. The exit status is that of `dovetail simulate`.",
        allow_abbrev=False,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the saved decision")
    add_format(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Read, decide, print."""
    from scheduler.simulation import simulator  # noqa: PLC0415 - the solver takes a second to import

    try:
        asked = simulator.load(options.file)
    except simulator.SavedError as error:
        return refuse(str(error))
    return simulate.show(simulator.answer(asked), options.output)
