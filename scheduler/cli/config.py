"""`dovetail config`: print the default configuration or its schema, or check a file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from scheduler.cli.arguments import warn
from scheduler.settings import load, reference


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Print the default configuration or its schema, or check a file."
    parser = commands.add_parser("config", help=text, description=text, allow_abbrev=False)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--print-default",
        action="store_const",
        const=reference.default_file,
        dest="text",
        help="print the default configuration with every key explained",
    )
    action.add_argument(
        "--print-schema",
        action="store_const",
        const=reference.json_schema,
        dest="text",
        help="print the JSON schema of the configuration",
    )
    action.add_argument("--check", type=Path, metavar="FILE", help="check a file; exit status 2 if it is not valid")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print or check."""
    if options.check is not None:
        load(options.check, warn=warn)
        sys.stdout.write(f"{options.check}: valid\n")
    else:
        sys.stdout.write(options.text())
    return 0
