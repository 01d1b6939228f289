"""Arguments to a command; what is wrong with them to one line and exit status 2."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from scheduler.cli import config, defrag, explain, replay, run, simulate, version
from scheduler.settings import SettingsError

_COMMANDS: Final = (run, simulate, explain, defrag, replay, config, version)
_DEFAULT: Final = "run"
_WRONG_USE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status: 2 for wrong use, 130 when it was interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(_with_command(words))
    try:
        status: int = options.execute(options)
    except SettingsError as error:
        sys.stderr.write(f"dovetail: {error}\n")
        return _WRONG_USE
    except KeyboardInterrupt:
        return 130
    return status


def _with_command(words: list[str]) -> list[str]:
    """Put `run` in front where no command is named: `dovetail --config F` runs."""
    if words and (not words[0].startswith("-") or words[0] in {"-h", "--help", "--version"}):
        return words
    return [_DEFAULT, *words]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Write the line and exit."""
        self.exit(_WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dovetail",
        description="A Kubernetes scheduler for devices (DRA) that decides jointly.",
        epilog="Without a command it runs. `dovetail COMMAND --help` explains a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version.line())
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(commands)
    return parser
