"""Options, settings and exit statuses that several commands share."""

import argparse
import sys
from pathlib import Path
from typing import Final

from scheduler.observe import terminal
from scheduler.settings import Overrides, Settings, load

WRONG: Final = 2
"""The exit status for wrong arguments, and for files or objects that cannot be read."""
_FORMATS: Final = ("table", "json", "yaml")


def add_manifests(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `-f`, which may be repeated, each time with one or more paths."""
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", type=Path, default=[], metavar="FILE_OR_DIR", help=text
    )


def manifests(options: argparse.Namespace) -> list[Path]:
    """Return the paths of all `-f` options."""
    return [path for each in options.filename for path in each]


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--kubeconfig` and `--config`."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig file of the cluster (default: $KUBECONFIG)"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of Dovetail")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `-o`, the output format."""
    parser.add_argument("-o", "--output", choices=_FORMATS, default=_FORMATS[0], help="output format (default: table)")


def settings_for(config: Path | None, scheduler_name: str | None) -> tuple[str, Settings]:
    """
    Return a scheduler name (default: that of the first profile) and settings that have a profile for it.

    Print a warning for each deprecated key. Raise `SettingsError`.
    """
    settings = load(config, warn=warn)
    name = scheduler_name or settings.profiles[0].scheduler_name
    if name not in settings.scheduler_names:
        settings = load(config, Overrides(scheduler_names=(name,)))
    return name, settings


def say(message: str) -> None:
    """Write a line to standard error, with texts of users escaped."""
    sys.stderr.write(f"dovetail: {terminal.escaped(message)}\n")


def warn(message: str) -> None:
    """Write a warning to standard error."""
    say(f"warning: {message}")


def refuse(message: str) -> int:
    """Write an error to standard error and return its exit status."""
    say(message)
    return WRONG
