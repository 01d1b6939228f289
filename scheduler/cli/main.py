"""The entry point: parses the arguments and runs a command; wrong arguments give one line and exit status 2."""

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from scheduler import version
from scheduler.cli import config, defrag, explain, replay, run, simulate
from scheduler.cli.arguments import WRONG, refuse, say
from scheduler.observe import terminal
from scheduler.settings import SettingsError

_COMMANDS: Final = (run, simulate, explain, defrag, replay, config)
_DEFAULT: Final = "run"
_DEFECT: Final = 70
"""The exit status for a defect of Dovetail (EX_SOFTWARE of sysexits.h)."""
_READER_GONE: Final = 141
"""The exit status that a shell gives for a command that SIGPIPE ended."""
_LONGEST: Final = 500
"""Characters of an error message that are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 2 for wrong use, 70 for a defect, 130 when it was interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(_with_command(words))
    try:
        status: int = options.execute(options)
    except SettingsError as error:
        return refuse(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's own last flush fails
        return _READER_GONE
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line and a status
        return _defect(error, options)
    return status


def _defect(error: Exception, options: argparse.Namespace) -> int:
    """Report a defect in one line; the traceback, which contains the user's values, only with `--debug`."""
    if options.debug:
        sys.stderr.write(terminal.escaped("".join(traceback.format_exception(error)), keep="\n"))
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    hint = "" if options.debug else "; --debug prints the traceback"
    say(
        f"{options.command}: failed with {type(error).__name__}{place}: {str(error)[:_LONGEST] or 'no message'}. "
        f"This is a defect of Dovetail: please report it with the input that caused it{hint}"
    )
    return _DEFECT


def _with_command(words: list[str]) -> list[str]:
    """Insert the default command: `dovetail --config F` means `dovetail run --config F`."""
    if words and (not words[0].startswith("-") or words[0] in {"-h", "--help", "--version"}):
        return words
    return [_DEFAULT, *words]


def _version() -> str:
    return f"dovetail {version()} (Python {platform.python_version()})"


def _print_version(_: argparse.Namespace) -> int:
    sys.stdout.write(f"{_version()}\n")
    return 0


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Write the message and exit."""
        self.exit(WRONG, terminal.escaped(f"{self.prog}: {message} (see {self.prog} --help)") + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dovetail",
        description="A Kubernetes scheduler for devices (DRA) that decides about all waiting pods together.",
        epilog="The default command is run. See `dovetail COMMAND --help` for each command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for command in _COMMANDS:
        command.add(commands)
    text = "Print the version."
    shown = commands.add_parser("version", help=text, description=text, allow_abbrev=False)
    shown.set_defaults(execute=_print_version)
    for each in commands.choices.values():
        each.add_argument("--debug", action="store_true", help="print the traceback of a defect")
    return parser
