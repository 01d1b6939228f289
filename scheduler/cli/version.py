"""`dovetail version`: which version this is."""

import argparse
import importlib.metadata
import platform
import sys
from typing import Any


def installed() -> str:
    """Give the version of the installed distribution, or `unknown` where it runs from a bare checkout."""
    try:
        return importlib.metadata.version("dovetail-scheduler")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def line() -> str:
    """Say the version in one line."""
    return f"dovetail {installed()} (Python {platform.python_version()})"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Print the version."
    parser = commands.add_parser("version", help=text, description=text, allow_abbrev=False)
    parser.set_defaults(execute=execute)


def execute(_: argparse.Namespace) -> int:
    """Print the version."""
    sys.stdout.write(f"{line()}\n")
    return 0
