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
    report,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import shape_arguments
from scheduler.cli.sources.configuration import ConfigurationReader, add_configured_cluster, configuration
from scheduler.cli.sources.running_scheduler import add_scheduler, ask, ended, is_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.queue_answers import QueueAnswer
    from scheduler.simulation.queue_listing import Queue
    from solver.domain import Pod

_LIMIT: Final = "1000"
"""The most pods that a running scheduler lists."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Positions are those among the pods of all namespaces: by priority, then by age; a gang is decided with its "
        "first pod. Exit status: 0 the list was printed, 2 the API server cannot be read, 3 pods of other namespaces "
        "may not be listed, so that positions are those in the namespace. With --add-nodes: 0 the pods would start "
        "with the nodes, 1 some would not, 2 and 3 as above."
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
    shape_arguments.add_node_options(parser, "the waiting pods of the list")
    add_scheduler(parser, is_optional=True)
    add_format(parser, has_wide=True)
    add_watch(parser)


def execute(options: argparse.Namespace) -> int:
    """Read and print; with `--watch` again whenever something changes."""
    access = cluster_access(options)
    namespace = namespace_of(options, access)
    shape_arguments.refuse_without(options)
    if options.add_nodes:
        return _with_nodes(options, access, namespace)
    if is_asked(options):
        return _by_scheduler(options, access, namespace)
    from scheduler.cli.sources import absent_objects, watching  # noqa: PLC0415 - only what answers needs it
    from scheduler.simulation import live_cluster, queue_listing  # noqa: PLC0415 - the cluster's client takes a while to import

    configured = None if options.scheduler_name else configuration(options, access)
    if configured is not None:
        configured.warn_of_no_scheduler()
    names = options.scheduler_name if configured is None else configured.settings.scheduler_names

    def read() -> "tuple[Queue, tuple[str, ...]]":
        found = live_cluster.pending_pods(access, namespace)
        pods = queue_listing.listed(found.pods, names, namespace, options.selector)
        served = configured.scheduler_names if configured is not None else None
        now = dt.datetime.now(dt.UTC)
        others = queue_listing.unserved_pods(found.pods, served, now, namespace, options.selector) if served else ()
        if namespace and not (pods or others or options.watch):
            absent_objects.refuse_missing_namespace(namespace, access)
        return queue_listing.Queue(pods=pods, unserved=others), found.forbidden

    _, forbidden = watching.shown(read, lambda seen: _print(options, seen[0], namespace), is_watched=options.watch)
    return completed(ExitStatus.OK, forbidden, is_configured=configured is None or configured.is_known)


def _with_nodes(options: argparse.Namespace, access: Any, namespace: str) -> int:
    """Print with which nodes the waiting pods start. Raise `UsageError`."""
    if is_asked(options) or options.watch or options.output == WIDE:
        raise UsageError("--add-nodes asks the API server once: leave out --service, --server, -w and -o wide")
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - the cluster's client takes a while to import

    running = ConfigurationReader(options, access)
    found = live_cluster.fetch(access, meanwhile=(running.read, live_cluster.load_solver))
    from scheduler.simulation import case_warnings, queue_listing, simulator  # noqa: PLC0415 - the solver takes a second
    from scheduler.simulation.adding import node_additions  # noqa: PLC0415 - as above
    from scheduler.simulation.case_builder import CaseBuilder  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests.documents import ManifestFiles  # noqa: PLC0415 - as above

    configured = running.chosen(options.scheduler_name[0] if options.scheduler_name else None)
    configured.warn_of_no_scheduler()
    made = CaseBuilder.of(found, ManifestFiles(), admits=False)
    name, settings = configured.served(
        _scheduler(made.pods, options.scheduler_name or list(configured.settings.scheduler_names))
    )
    case = made.case(name)
    own = frozenset(pod.id for pod in queue_listing.asked(case.batch.pods, namespace, options.selector))
    left_out = queue_listing.asked(case.left_out, namespace, options.selector)
    others = case_warnings.other_schedulers(left_out, name)
    report((*case.warnings, *others, *case.preferences), case.problems)
    if not own:
        sys.stdout.write(f"No pod waits for scheduler {name}.\n")
        return completed(ExitStatus.OK, found.forbidden, is_configured=configured.is_known)
    nodes = shape_arguments.offered(options, case, settings, shape_arguments.live_objects(access))
    record = simulator.recorded(case, settings, name, running.reservations(made.pods))
    idle = "" if options.scheduler_name else configured.idle
    answer = node_additions.find(record, own, nodes)._replace(idle=idle)
    shape_arguments.printed(answer, options.output)
    status = ExitStatus.OK if answer.starts and not idle else ExitStatus.NO
    return completed(status, found.forbidden, is_configured=running.is_known)


def _scheduler(pods: "Sequence[Pod]", names: list[str]) -> str:
    """Return the one of some schedulers for which pods wait, the first without any. Raise `UsageError`."""
    waiting = {pod.scheduler_name for pod in pods if not pod.node_name and not pod.is_terminal}
    asked = [name for name in names if name in waiting]
    if len(asked) > 1:
        raise UsageError(f"--add-nodes: pods wait for {', '.join(asked)}: choose one with --scheduler-name")
    return asked[0] if asked else names[0]


def _by_scheduler(options: argparse.Namespace, access: Any, namespace: str) -> int:
    """Ask the running scheduler, whose order this is. Raise `UsageError`."""
    from scheduler.cli.sources import watching  # noqa: PLC0415 - as above
    from scheduler.simulation.queue_listing import Queue  # noqa: PLC0415 - as above

    if options.selector is not None or options.scheduler_name:
        raise UsageError("a running scheduler answers about all of its pods: leave out -l and --scheduler-name")
    parameters = {"namespace": namespace, "limit": _LIMIT}
    found = watching.shown(
        lambda: ask(options, access, "queue", parameters, _answer),
        lambda answer: _print(options, Queue(pods=answer.pods), namespace),
        is_watched=options.watch,
    )
    return ended(found.hidden, is_truncated=found.truncated)


def _answer() -> "type[QueueAnswer]":
    """Import the type of the answer, and what prints it."""
    from scheduler.api.queue_answers import QueueAnswer  # noqa: PLC0415 - the solver's values take a while to import
    from scheduler.simulation import queue_listing  # noqa: F401, PLC0415 - as above

    return QueueAnswer


def _print(options: argparse.Namespace, found: "Queue", namespace: str) -> None:
    from scheduler.simulation import list_table, printing, queue_listing  # noqa: PLC0415 - as above

    if options.output in {TABLE, WIDE}:
        now, is_wide = dt.datetime.now(dt.UTC), options.output == WIDE
        queue_listing.show(found.pods, sys.stdout, now, is_wide=is_wide, namespace=namespace)
        list_table.write(map(str, found.unserved), sys.stdout)
    else:
        sys.stdout.write(printing.text("Queue", found, options.output))
