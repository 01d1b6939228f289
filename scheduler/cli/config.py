"""`dovetail config`: print the default configuration or its schema, or check a file."""

import argparse
import sys
from pathlib import Path

from scheduler.cli.arguments import warn
from scheduler.cli.exit_status import ExitStatus
from scheduler.observe import terminal


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--print-default",
        action="store_const",
        const="default_file",
        dest="function",
        help="print the default configuration with every key explained",
    )
    action.add_argument(
        "--print-schema",
        action="store_const",
        const="json_schema",
        dest="function",
        help="print the JSON schema of the configuration",
    )
    action.add_argument("--check", type=Path, metavar="FILE", help="check a file; exit status 2 if it is not valid")


def execute(options: argparse.Namespace) -> int:
    """Print or check."""
    from scheduler.settings import load, reference  # noqa: PLC0415 - the settings take a second to import

    if options.check is not None:
        load(options.check, warn=warn)
        sys.stdout.write(f"{terminal.escaped(str(options.check))}: valid\n")
    else:
        sys.stdout.write(getattr(reference, options.function)())
    return ExitStatus.OK
