"""Options that several commands have, and what is common to the ends of commands."""

import argparse
import sys
from pathlib import Path
from typing import Final

from scheduler.observe import terminal
from scheduler.settings import Overrides, Settings, load

WRONG: Final = 2
"""The exit status of wrong use, and of what cannot be read."""
_FORMATS: Final = ("table", "json", "yaml")


def add_manifests(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `-f`, which may be given several times, each with several paths."""
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", type=Path, default=[], metavar="FILE_OR_DIR", help=text
    )


def manifests(options: argparse.Namespace) -> list[Path]:
    """Give the paths of all `-f`."""
    return [path for each in options.filename for path in each]


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add how to reach the cluster, and the configuration that is decided by."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster (default $KUBECONFIG)"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="Dovetail's configuration file")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the output's format."""
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default=_FORMATS[0], help="what is printed (default: table)"
    )


def settings_for(config: Path | None, scheduler_name: str | None) -> tuple[str, Settings]:
    """
    Give a scheduler's name, the first profile's where none is given, and settings that have a profile for it.

    Raises SettingsError.
    """
    settings = load(config)
    name = scheduler_name or settings.profiles[0].scheduler_name
    if name not in settings.scheduler_names:
        settings = load(config, Overrides(scheduler_names=(name,)))
    return name, settings


def say(message: str) -> None:
    """Write a line beside the output, in which texts of users are escaped."""
    sys.stderr.write(f"dovetail: {terminal.escaped(message)}\n")


def refuse(message: str) -> int:
    """Say what is wrong and give the exit status for it."""
    say(message)
    return WRONG
