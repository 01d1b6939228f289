"""`dovetail queue`: who waits, since when, and in which order the pods would be decided."""

import argparse
import datetime as dt
import sys

from scheduler.cli.arguments import (
    TABLE,
    WIDE,
    add_cluster,
    add_format,
    add_namespaces,
    add_selector,
    cluster_access,
    completed,
    namespace_of,
)
from scheduler.cli.exit_status import ExitStatus


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Positions are those among the pods of all namespaces: by priority, then by age; a gang is decided with its "
        "first pod. Exit status: 0 the list was printed, 2 the API server cannot be read, 3 pods of other namespaces "
        "may not be listed, so that positions are those in the namespace."
    )
    add_namespaces(parser)
    add_selector(parser, "pods")
    add_cluster(parser)
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="pods with this spec.schedulerName instead of the names in the profiles; may be repeated",
    )
    add_format(parser, has_wide=True)


def execute(options: argparse.Namespace) -> int:
    """Read and print."""
    from scheduler.settings import load  # noqa: PLC0415 - the settings take a second to import
    from scheduler.simulation import live_cluster, printing, queue_listing  # noqa: PLC0415 - the same

    access = cluster_access(options)
    namespace = namespace_of(options, access)
    names = options.scheduler_name or load(options.config).scheduler_names
    found = live_cluster.pending_pods(access, namespace)
    pods = queue_listing.listed(found.pods, names, namespace, options.selector)
    if options.output in {TABLE, WIDE}:
        now, is_wide = dt.datetime.now(dt.UTC), options.output == WIDE
        queue_listing.show(pods, sys.stdout, now, is_wide=is_wide, has_namespaces=not namespace)
    else:
        sys.stdout.write(printing.text("Queue", {"pods": pods}, options.output))
    return completed(ExitStatus.OK, found.forbidden)
