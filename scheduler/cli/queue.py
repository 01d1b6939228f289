"""`dovetail queue`: the pods that wait, since when, and in which order they would be decided."""

import argparse
import datetime as dt
import sys
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.arguments import (
    TABLE,
    WIDE,
    UsageError,
    add_format,
    add_namespaces,
    add_selector,
    add_watch,
    cluster_access,
    completed,
    namespace_of,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import add_configured_cluster, configuration
from scheduler.cli.sources.running_scheduler import add_scheduler, ask, ended, is_asked

if TYPE_CHECKING:
    from scheduler.api.queue_answers import QueueAnswer
    from scheduler.status.waiting_pods import WaitingPod

_LIMIT: Final = "1000"
"""The most pods that a running scheduler lists."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Positions are those among the pods of all namespaces: by priority, then by age; a gang is decided with its "
        "first pod. Exit status: 0 the list was printed, 2 the API server cannot be read, 3 pods of other namespaces "
        "may not be listed, so that positions are those in the namespace."
    )
    add_namespaces(parser)
    add_selector(parser, "pods")
    add_configured_cluster(parser)
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="pods with this spec.schedulerName instead of the names in the profiles; may be repeated",
    )
    add_scheduler(parser, is_optional=True)
    add_format(parser, has_wide=True)
    add_watch(parser)


def execute(options: argparse.Namespace) -> int:
    """Read and print; with `--watch` again whenever something changes."""
    access = cluster_access(options)
    namespace = namespace_of(options, access)
    if is_asked(options):
        return _by_scheduler(options, access, namespace)
    from scheduler.cli.sources import watching  # noqa: PLC0415 - only what answers needs it
    from scheduler.simulation import live_cluster, queue_listing  # noqa: PLC0415 - the cluster's client takes a while to import

    configured = None if options.scheduler_name else configuration(options, access)
    if configured is not None:
        configured.warn_of_no_scheduler()
    names = options.scheduler_name if configured is None else configured.settings.scheduler_names

    def read() -> "tuple[tuple[WaitingPod, ...], tuple[str, ...]]":
        found = live_cluster.pending_pods(access, namespace)
        return queue_listing.listed(found.pods, names, namespace, options.selector), found.forbidden

    _, forbidden = watching.shown(read, lambda seen: _print(options, seen[0], namespace), is_watched=options.watch)
    return completed(ExitStatus.OK, forbidden, is_configured=configured is None or configured.is_known)


def _by_scheduler(options: argparse.Namespace, access: Any, namespace: str) -> int:
    """Ask the running scheduler, whose order this is. Raise `UsageError`."""
    from scheduler.cli.sources import watching  # noqa: PLC0415 - as above

    if options.selector is not None or options.scheduler_name:
        raise UsageError("a running scheduler answers about all of its pods: leave out -l and --scheduler-name")
    parameters = {"namespace": namespace, "limit": _LIMIT}
    found = watching.shown(
        lambda: ask(options, access, "queue", parameters, _answer),
        lambda answer: _print(options, answer.pods, namespace),
        is_watched=options.watch,
    )
    return ended(found.hidden, is_truncated=found.truncated)


def _answer() -> "type[QueueAnswer]":
    """Import the type of the answer, and what prints it."""
    from scheduler.api.queue_answers import QueueAnswer  # noqa: PLC0415 - the solver's values take a while to import
    from scheduler.simulation import queue_listing  # noqa: F401, PLC0415 - as above

    return QueueAnswer


def _print(options: argparse.Namespace, pods: "tuple[WaitingPod, ...]", namespace: str) -> None:
    from scheduler.simulation import printing, queue_listing  # noqa: PLC0415 - as above

    if options.output in {TABLE, WIDE}:
        now, is_wide = dt.datetime.now(dt.UTC), options.output == WIDE
        queue_listing.show(pods, sys.stdout, now, is_wide=is_wide, namespace=namespace)
    else:
        sys.stdout.write(printing.text("Queue", {"pods": pods}, options.output))
