"""The entry point: parses the arguments and runs a command; wrong arguments give one line and exit status 2."""

import argparse
import errno
import gc
import importlib
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from scheduler.cli.arguments import UsageError, refuse, say
from scheduler.cli.exit_status import ExitStatus
from scheduler.observe import terminal

GROUPS: Final = {
    "Ask": {
        "status": "Show whether Dovetail is healthy: leader, rights, queue, devices, and what to look at next.",
        "check": "Check whether Dovetail can work in a cluster, before and after it is installed.",
        "explain": "Show why a pod or gang waits and what would let it in, or why a pod is where it is.",
        "fit": "Show whether and where the pods of a file would start now, or what has to end, move or go for them.",
        "queue": "Show which pods wait, since when and why, in the order in which they would be decided.",
        "quota": "Show what each DeviceQuota guarantees, limits and lends, who waits, and who would lose what next.",
        "free": "Show how many devices are held and free, the largest blocks, and fragmentation with its causes.",
        "devices": "Show what holds each device or share, since when, and why the others can or cannot be had.",
        "history": "Show what the running scheduler decided: pods placed with node and devices, waiting, evicted, and "
        "why.",
        "usage": "Show for how long devices were in use and idle, as the running scheduler has seen it.",
        "simulate": "Show on which nodes and devices pods would be placed, or why they would wait. Nothing is written "
        "to a cluster.",
        "config": "Print the default configuration or its schema, or check a file.",
        "version": "Print the versions of this program, of the API server and of the scheduler in the cluster.",
    },
    "Watch": {
        "page": "Serve the map, the queue and the last decisions as a web page that follows the cluster.",
        "map": "Write the fleet as a page to look at: one HTML file with every node, its devices, and who holds them.",
        "observe": "Record what Dovetail would do with the pods of another scheduler. Nothing is written to the "
        "cluster.",
        "report": "Show what `dovetail observe` has found: pods placed sooner and later, free nodes, gangs, evictions.",
    },
    "Change": {
        "repair": "Show which pods to move so that others fit or leave what failed: the fewest, proven.",
        "pause": "Stop the scheduler and take back what it began for pods that wait; running pods go on.",
        "resume": "Let a paused scheduler place pods again.",
    },
    "Serve": {
        "run": "Schedule the pods that name this scheduler, until stopped (SIGTERM or SIGINT).",
    },
    "Develop": {
        "expect": "Print the pods to expect in a profile, as those of a cluster or of files ask for devices.",
        "replay": "Repeat a decision that `dovetail simulate --save`, or a scheduler after a defect, saved to a file.",
        "completion": "Print the completion script of a shell.",
    },
}
"""What each command does, by what it is for. Its module is imported only when it is called."""
COMMANDS: Final = {name: text for group in GROUPS.values() for name, text in group.items()}
OLD_NAMES: Final = {
    "drain": "The old name of `pause`, with --undo of `resume`.",
    "defrag": "The old name of `repair plan`.",
}
"""Commands that work for one more release under these names."""
EXAMPLES: Final = {
    "status": ("status --wait",),
    "check": ("check --test-pod -n team-a",),
    "explain": ("explain pod/trainer-0 -n team-a", "explain gang/train -n team-a -o json"),
    "fit": ("fit -f job.yaml",),
    "queue": ("queue -A",),
    "free": ("free --by class,node", "free -l topology.kubernetes.io/zone=a"),
    "devices": ("devices node/gpu-0001", "devices --problems"),
    "history": ("history pod/trainer-0 -n team-a", "history -A --since 6h --limit 50"),
    "usage": ("usage --by class --since 7d",),
    "simulate": ("simulate -f pods.yaml",),
    "repair": ("repair plan --for node gpu-0001", "repair approve NAME"),
}
"""Command lines of the commands that are used most, without the program."""
_MODULES: Final = {
    "check": "installation.installation_check",
    "defrag": "repairing.defrag",
    "drain": "installation.drain",
    "expect": "expectation.expect",
    "observe": "adoption.observe",
    "pause": "installation.pause",
    "repair": "repairing.repair",
    "report": "adoption.report",
    "resume": "installation.resume",
    "status": "installation.status",
}
"""The commands whose module is in a package of this one; that of any other is in this package and has its name."""
_OF_SCHEDULER: Final = {"--server", "--service", "--certificate-authority", "--service-account"}
"""Options of the commands that a running scheduler can answer."""
_LASTING: Final = {"run", "page", "observe"}
"""Commands that go on until they are stopped."""
_COMPLETING: Final = "_ARGCOMPLETE"
"""The environment variable that the completion scripts of argcomplete set."""
_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a write to the output fails with, on a full disk for instance."""
_DESCRIPTION: Final = "A Kubernetes scheduler for devices (DRA) that decides about all waiting pods together."
_LEAST_WIDTH: Final = 60
"""Columns of the overview of all commands, at least."""
_LONGEST: Final = 500
"""Characters of an error message that are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its `ExitStatus`; wrong arguments end the process with status 2."""
    if _COMPLETING in os.environ:
        from scheduler.cli import completion  # noqa: PLC0415 - only completion needs it

        completion.complete(parser_of_line(os.environ["COMP_LINE"]))
    is_plugin = Path(sys.argv[0]).name == "kubectl-dovetail"
    words = _asking_for_help(list(sys.argv[1:] if arguments is None else arguments))
    options = _parser_for(words[0], "kubectl dovetail" if is_plugin else "dovetail").parsed(words)
    is_collecting = gc.isenabled()
    if words[0] not in _LASTING and not getattr(options, "watch", False):
        gc.disable()  # a command ends soon, and the objects of a large cluster are read five times as fast
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that no command needs
    try:
        status: int = options.execute(options)
        if status != ExitStatus.WRONG:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        return ExitStatus.READER_GONE
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line and a status
        return _failed(error, options)
    finally:
        if is_collecting:
            gc.enable()
    return status


def _asking_for_help(words: list[str]) -> list[str]:
    """Read `help` as `--help`, and `help COMMAND` as `COMMAND --help`; no words ask for help too."""
    if words and words[0] == "help":
        words = words[1:2]
        return [*words, "--help"]
    return words or ["--help"]


def flushed(status: int) -> int:
    """Write what is buffered of the output; return the exit status, another one where it cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return ExitStatus.READER_GONE
    except OSError as error:
        return status if status == ExitStatus.WRONG else refuse(_no_output(error))
    return status


def _no_output(error: OSError) -> str:
    return f"the output cannot be written: {error.strerror}"


def _failed(error: Exception, options: argparse.Namespace) -> int:
    """Report what is wrong with arguments, settings or the access to the cluster in one line; else a defect."""
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - only what failed needs these slow imports
    from scheduler.settings import SettingsError  # noqa: PLC0415 - the same

    if isinstance(error, SettingsError):
        return refuse(str(error))
    if isinstance(error, (UsageError, KubeError)):
        return refuse(f"{options.command}: {error}")
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
        return refuse(f"{options.command}: {_no_output(error)}")
    return _defect(error, options)


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
    return ExitStatus.DEFECT


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments in one line, with what was meant instead."""

    command: "_Parser | None" = None
    """The parser of the command whose arguments are known."""
    lists_commands = False

    def format_help(self) -> str:
        """Return the help: of a command its options, of the program the commands in groups."""
        if self.lists_commands:
            return _overview(self.prog)
        program, _, name = self.prog.rpartition(" ")
        lines = [f"  {program} {each}" for each in EXAMPLES.get(name, ())]
        return "\n".join([f"{super().format_help()}\nexamples:", *lines, ""]) if lines else super().format_help()

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse a command line; wrong arguments end the process."""
        name = words[0]
        if name not in COMMANDS and name not in OLD_NAMES and not name.startswith("-"):
            self.error(f'unknown command "{name}"{_meant(name, COMMANDS)}')
        if name not in COMMANDS and self.is_option_of("run", name):
            self.error(f'the command is missing: write "{self.prog} run {name} …" to schedule pods')
        empty = next((each for each in words if each.startswith("--") and each.endswith("=--")), "")
        if empty:  # argparse of Python 3.11 takes it for a list
            self.error(f"argument {empty.removesuffix('=--')}: -- is no value, write one")
        options, unknown = self.parse_known_args(words)
        if unknown:
            command = self.command or self
            option = unknown[0].partition("=")[0]
            known = command.option_names() if option.startswith("--") else ()
            having = [each for each in COMMANDS if self.command and known and self.is_option_of(each, option)]
            others = f". {_listed(having)} {'have' if len(having) > 1 else 'has'} {option}" if having else ""
            why = " for a running scheduler, which answers no other question" if option in _OF_SCHEDULER else ""
            if instead := command.instead_of(unknown[0], words):
                command.error(f"unrecognized arguments: {' '.join(unknown)}. {instead}")
            command.error(
                f"unrecognized arguments: {' '.join(unknown)}{others + why if others else _meant(option, known)}"
            )
        return options

    def option_names(self) -> tuple[str, ...]:
        """Return the long names of its options."""
        return tuple(each for each in self._option_string_actions if each.startswith("--"))

    def instead_of(self, unknown: str, words: Sequence[str]) -> str:
        """Say how to name the object or the file that an unknown argument of a command names; "" without one."""
        from scheduler.cli.sources.targets import TargetKind, kind_of  # noqa: PLC0415 - only wrong arguments need it

        names, program = self.option_names(), self.prog.rpartition(" ")[0]
        if "--namespace" in names and (namespace := _namespace_among(words, unknown)):
            return f"For one namespace write -n {namespace}"
        option, _, value = unknown.partition("=")
        value = value or "".join(words[words.index(unknown) + 1 :][:1])
        takes_objects = any(each.dest == "target" for each in self._actions)
        if option.startswith("--") and value and kind_of(option.removeprefix("--")) and takes_objects:
            return f"Write {option.removeprefix('--')}/{value}"
        kind, slash, name = unknown.partition("/")
        command = {TargetKind.POD: "explain", TargetKind.POD_GROUP: "explain", TargetKind.NODE: "devices"}
        if slash and name and kind_of(kind) in command:
            return f"For this {kind} write {program} {command[TargetKind(kind_of(kind))]} {unknown}"
        return f"Write -f {unknown}" if "--filename" in names and not unknown.startswith("-") else ""

    def is_option_of(self, command: str, word: str) -> bool:
        """Whether a word is an option of a command, and none of its own."""
        theirs = _parser_for(command, self.prog).command
        name = word.partition("=")[0]
        return theirs is not None and name in theirs.option_names() and name not in self.option_names()

    def error(self, message: str) -> NoReturn:
        """Write the message and exit."""
        self.exit(ExitStatus.WRONG, terminal.escaped(f"{self.prog}: {message} (see {self.prog} --help)") + "\n")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _namespace_among(words: Sequence[str], unknown: str) -> str:
    """Return the namespace that an unknown word, or it and its neighbour, names as `ns/x` or `ns x`; "" without one."""
    from scheduler.cli.sources.targets import TargetKind, kind_of  # noqa: PLC0415 - only wrong arguments need it

    at = words.index(unknown)
    kind, _, name = unknown.partition("/")
    if kind_of(kind) == TargetKind.NAMESPACE:
        return name or "".join(words[at + 1 : at + 2])
    return unknown if at and kind_of(words[at - 1]) == TargetKind.NAMESPACE else ""


def _meant(name: str, known: Iterable[str]) -> str:
    """Ask whether the most similar of the known names was meant; "" where none is similar."""
    from solver.domain import wording  # noqa: PLC0415 - only wrong arguments need it

    dashes = "--" if name.startswith("--") else ""
    found = wording.nearest(name.removeprefix(dashes), (each.removeprefix(dashes) for each in known))
    return f'. Did you mean "{dashes}{found}"?' if found else ""


def _overview(program: str) -> str:
    """Return all commands in groups, as wide as the terminal; the names of the groups are bold there."""
    has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns)
    indent = " " * (max(map(len, COMMANDS)) + 4)
    lines = [f"usage: {program} COMMAND [OPTION …]", "", textwrap.fill(_DESCRIPTION, width)]
    for title, group in GROUPS.items():
        lines += ["", f"\x1b[1m{title}\x1b[0m" if has_colour else title]
        for name, text in group.items():
            head = f"  {name}".ljust(len(indent))
            lines.append(
                textwrap.fill(text, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
            )
    return "\n".join([*lines, "", f"`{program} COMMAND --help` shows the options of each; --version the version.", ""])


class _PrintVersion(argparse.Action):
    """Prints the version and exits; reading it takes a while, so it is read only here."""

    def __call__(self, *_: object) -> None:
        """Print."""
        from scheduler.cli import version  # noqa: PLC0415 - as above

        sys.stdout.write(f"{version.text()}\n")
        sys.exit(ExitStatus.OK)


def parser_of_line(line: str) -> argparse.ArgumentParser:
    """Return the parser for a command line that is being typed."""
    return _parser_for(next((word for word in line.split() if word in COMMANDS or word in OLD_NAMES), ""), "dovetail")


def _parser_for(command: str, program: str) -> _Parser:
    """Return the parser, which knows all commands by name and the arguments of one of them."""
    parser = _Parser(prog=program, allow_abbrev=False)
    parser.lists_commands = True
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, text in (COMMANDS | {old: OLD_NAMES[old] for old in OLD_NAMES if old == command}).items():
        added = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name == command:
            module = importlib.import_module(f"scheduler.cli.{_MODULES.get(name, name)}")
            module.add(added)
            parser.command = added
            added.add_argument("--debug", action="store_true", help="print the traceback of a defect")
            added.set_defaults(execute=module.execute)
    return parser
