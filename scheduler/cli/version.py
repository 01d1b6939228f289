"""`dovetail version`: the version of this program."""

import argparse
import platform
import sys

from scheduler import version
from scheduler.cli.exit_status import ExitStatus


def add(_: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: none."""


def execute(_: argparse.Namespace) -> int:
    """Print."""
    sys.stdout.write(f"{text()}\n")
    return ExitStatus.OK


def text() -> str:
    """Return the version in one line."""
    return f"dovetail {version()} (Python {platform.python_version()})"
