"""`dovetail drain`: the old name of `pause`, and with `--undo` of `resume`. It goes with the next release."""

import argparse

from scheduler.cli.arguments import warn
from scheduler.cli.installation import pause, resume


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "Write `dovetail pause` or `dovetail resume`: the next release does not know `dovetail drain`."
    pause.add_lease(parser)
    pause.add_timeout(parser)
    parser.add_argument("--undo", action="store_true", help="what `dovetail resume` does")


def execute(options: argparse.Namespace) -> int:
    """Pause or resume."""
    name = "resume" if options.undo else "pause"
    old = "drain --undo" if options.undo else "drain"
    warn(f"`dovetail {old}` is `dovetail {name}` now; the next release does not know the old name")
    return resume.execute(options) if options.undo else pause.execute(options)
