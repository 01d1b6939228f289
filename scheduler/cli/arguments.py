"""Options that several commands share, with kubectl's names and meanings, and messages on standard error."""

import argparse
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import object_names
from scheduler.observe import terminal

if TYPE_CHECKING:  # these take a second to import, and help, completion and wrong arguments need none of them
    from scheduler.kube.access import ClusterAccess
    from scheduler.simulation.manifests.documents import ManifestFiles

TABLE: Final = "table"
WIDE: Final = "wide"
_DOCUMENTS: Final = ("json", "yaml")
_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class UsageError(Exception):
    """Arguments are wrong; the message says what to write instead."""


def add_manifests(parser: argparse.ArgumentParser, text: str, *, is_single: bool = False) -> None:
    """Add `-f`, which may be repeated, each time with paths, or with one path where an object may stand behind it."""
    paths = 1 if is_single else "+"
    parser.add_argument(
        "-f", "--filename", action="append", nargs=paths, type=Path, default=[], metavar="FILE_OR_DIR", help=text
    )


def manifests(options: argparse.Namespace) -> list[Path]:
    """Return the paths of all `-f` options."""
    return [path for each in options.filename for path in each]


def read_manifests(options: argparse.Namespace, access: "ClusterAccess | None") -> "ManifestFiles":
    """Read the manifests of `-f`; those that name no namespace are in that of `-n`, else of the context."""
    from scheduler.simulation import defaults  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    found = documents.read(manifests(options))
    return defaults.in_namespace(found, namespace_of(options, access), is_given=bool(options.namespace))


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--kubeconfig` and `--context`."""
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig file of the cluster (default: $KUBECONFIG, else ~/.kube/config)",
    )
    context = parser.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig file (default: its current context)"
    )
    object_names.complete_contexts(context)


def add_config(parser: argparse.ArgumentParser, default: str) -> None:
    """Add `--config`; `default` says in words what counts without it."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"configuration file of Dovetail (default: {default})"
    )


def cluster_access(options: argparse.Namespace) -> "ClusterAccess":
    """Return the cluster that `--kubeconfig` and `--context` choose, as kubectl does. Raise `ConfigurationError`."""
    from scheduler.kube import access  # noqa: PLC0415 - the cluster's client takes a while to import

    return access.find(options.kubeconfig, options.context)


def namespace_name(text: str) -> str:
    """Return the value of `-n`, which may be empty. Raise `ArgumentTypeError` where no namespace can have the name."""
    if text and _NAMESPACE.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a namespace: write at most 63 of a-z, 0-9 and -")
    return text


def add_namespace(parser: argparse.ArgumentParser, what: str = "the objects") -> None:
    """Add `-n`."""
    action = parser.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        metavar="NAMESPACE",
        help=f"namespace of {what} (default: that of the context)",
    )
    object_names.complete_names(action, "namespace")


def add_namespaces(parser: argparse.ArgumentParser) -> None:
    """Add `-n` and `-A`, of which one may be given."""
    parser.set_defaults(all_namespaces=False)
    either = parser.add_mutually_exclusive_group()
    action = either.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        metavar="NAMESPACE",
        help="one namespace (default: that of the context)",
    )
    object_names.complete_names(action, "namespace")
    either.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def namespace_of(options: argparse.Namespace, access: "ClusterAccess | None") -> str:
    """
    Return the namespace that `-n` names, else that of the context; "" for `-A`.

    `access` is None where the objects come from files: the namespace is then `default`.
    """
    if getattr(options, "all_namespaces", False):
        return ""
    if options.namespace:
        return str(options.namespace)
    return access.namespace if access is not None else _DEFAULT_NAMESPACE


def add_selector(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `-l`, a label selector for `what`, such as `pods`; the value is a `LabelSelector` or None."""
    parser.add_argument(
        "-l",
        "--selector",
        type=_selector,
        metavar="SELECTOR",
        help=f"only {what} with these labels: `app=web`, `tier!=test`, `team in (a, b)`, `gpu`, `!old`, with commas "
        "between",
    )


def _selector(text: str) -> Any:
    from scheduler.api import selector_parameter  # noqa: PLC0415 - as above

    try:
        return selector_parameter.parse(text)
    except selector_parameter.LabelSelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_format(
    parser: argparse.ArgumentParser, *, has_wide: bool = False, wide: str = "shows more columns and shortens none"
) -> None:
    """Add `-o`, the output format; `wide` for commands that have more to show than they do."""
    formats = (TABLE, *((WIDE,) if has_wide else ()), *_DOCUMENTS)
    more = f"; wide {wide}" if has_wide else ""
    parser.add_argument(
        "-o", "--output", choices=formats, default=TABLE, help=f"output format (default: {TABLE}{more})"
    )


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add `-w`; `scheduler.cli.sources.watching` repeats the question."""
    parser.add_argument("-w", "--watch", action="store_true", help="go on, and print again whatever changes")


def say(message: str) -> None:
    """Write a line to standard error, on a terminal as wide as that, with texts of users escaped."""
    text = f"dovetail: {terminal.escaped(message)}"
    if sys.stderr.isatty():
        from scheduler.observe import wrapping  # noqa: PLC0415 - most commands say nothing

        text = "\n".join(wrapping.wrapped(text, shutil.get_terminal_size().columns, 2))
    sys.stderr.write(f"{text}\n")


def warn(message: str) -> None:
    """Write a warning to standard error."""
    say(f"warning: {message}")


def report(warnings: Iterable[str], problems: Iterable[object]) -> None:
    """Write what is odd, and what is wrong, about manifests."""
    for warning in warnings:
        warn(warning)
    for problem in problems:
        say(str(problem))


def refuse(message: str) -> int:
    """Write an error to standard error and return its exit status."""
    say(message)
    return ExitStatus.WRONG


def completed(status: int, forbidden: tuple[str, ...], *, is_configured: bool = True) -> int:
    """
    Say which kinds the caller may not list, and return the exit status of an answer that may be wrong, else `status`.

    An answer may also be wrong where the configuration of the running scheduler is not known (not `is_configured`).
    """
    if forbidden:
        warn(
            f"cannot list {', '.join(forbidden)}: forbidden. The answer leaves them out; the ClusterRole "
            "dovetail-viewer allows it (docs/installing.md)"
        )
    return ExitStatus.INCOMPLETE if forbidden or not is_configured else status
