"""`dovetail replay`: repeat a saved decision."""

import argparse
from pathlib import Path

from scheduler.cli import simulate
from scheduler.cli.arguments import add_format, refuse, say
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.repairing import moves_planning


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The same file gives the same plan on every machine. The exit status is that of `dovetail simulate`; for moves "
        "it is 0 where the same ones are found again."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the saved decision or repair")
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, decide, print."""
    from scheduler.simulation import simulator  # noqa: PLC0415 - the solver takes a second to import
    from scheduler.simulation.moves import planned_moves  # noqa: PLC0415 - the same

    try:
        asked = simulator.load(options.file)
    except simulator.SavedError as error:
        return refuse(str(error))
    if asked.repair is not None:
        found = planned_moves.replayed(asked, asked.repair)
        moves_planning.show(found, options.output)
        if found.found.moves != asked.repair.found.moves:
            say("the moves are others than those that were saved: a limit of time has ended one of the searches")
            return ExitStatus.NO
        return ExitStatus.OK if found.found.is_found else ExitStatus.NO
    return simulate.show(simulator.answer(asked), options.output)
