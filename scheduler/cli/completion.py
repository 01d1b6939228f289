"""`dovetail completion SHELL`: completion for bash, zsh and fish by argcomplete, and for kubectl's plugins."""

import argparse
import io
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from scheduler.cli.exit_status import ExitStatus

_SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAMS: Final = ("dovetail", "kubectl-dovetail")
_NO_SPACE, _NO_FILES = 2, 4
"""Directives of the protocol of kubectl's completion (ShellCompDirective of spf13/cobra)."""

_files: Final = FilesCompleter()


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "bash:  source <(dovetail completion bash)                 in ~/.bashrc\n"
        "zsh:   source <(dovetail completion zsh)                  in ~/.zshrc, after compinit\n"
        "fish:  dovetail completion fish | source                  in ~/.config/fish/config.fish\n"
        "`kubectl dovetail` is completed by kubectl's own completion, which finds kubectl_complete-dovetail."
    )
    parser.add_argument("shell", choices=_SHELLS, help="the shell that reads the script")


def execute(options: argparse.Namespace) -> int:
    """Print the script."""
    only_ours = ["-o", "nospace"]  # argcomplete's default adds file names wherever nothing else is known
    code = shellcode(_PROGRAMS, shell=options.shell, complete_arguments=only_ours)
    sys.stdout.write(code)
    return ExitStatus.OK


def complete(parser: argparse.ArgumentParser, to: io.StringIO | None = None) -> None:
    """Write what may follow the words of $COMP_LINE, to the shell that runs the script or to `to`, and exit."""
    argcomplete.autocomplete(
        parser, always_complete_options=False, exit_method=sys.exit, output_stream=to, default_completer=_OnlyPaths()
    )


class _OnlyPaths(BaseCompleter):
    """Completes file names, but only for arguments that take one."""

    def __call__(
        self, *, prefix: str, action: argparse.Action, parser: argparse.ArgumentParser, parsed_args: argparse.Namespace
    ) -> Iterable[str]:
        """Return file names that begin with the prefix."""
        del parser, parsed_args
        return _files(prefix) if action.type is Path else ()


def complete_for_kubectl() -> None:
    """
    Answer kubectl, which runs `kubectl_complete-dovetail WORD... LAST` and reads a line for each completion.

    A line is a completion, a tab and its description; the last line is `:` and a directive.
    """
    from scheduler.cli.main import parser_of_line  # noqa: PLC0415 - it imports this module

    *words, last = sys.argv[1:] or [""]
    line = f"{shlex.join(['dovetail', *words])} {last}"
    os.environ |= {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_DFS": "\t",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    found = io.StringIO()
    try:
        complete(parser_of_line(line), found)
    except SystemExit:
        lines = found.getvalue().splitlines()
        is_folder = any(each.partition("\t")[0].endswith("/") for each in lines)
        directive = _NO_FILES | (_NO_SPACE if is_folder else 0)
        sys.stdout.write("".join(f"{each}\n" for each in [*lines, f":{directive}"]))
