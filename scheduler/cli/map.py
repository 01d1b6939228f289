"""`dovetail map`: the fleet as one HTML file that needs nothing else, or as its JSON document."""

import argparse
import datetime as dt
import sys
from typing import TYPE_CHECKING, Final

from scheduler.cli.arguments import UsageError, cluster_access, completed, manifests
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import fleet_arguments
from scheduler.observe import terminal

if TYPE_CHECKING:
    from scheduler.page.fleet_map import MapOrigin
    from scheduler.settings import Settings
    from scheduler.simulation.devices_output import FleetAnswer
    from scheduler.status.waiting_pods import WaitingPod

_HTML: Final = "html"
_JSON: Final = "json"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The file loads nothing from elsewhere: `dovetail map > cluster.html`, and open it in a browser. It has names "
        "of nodes, devices, claims and pods, labels of nodes and the messages of waiting pods. Exit status: 0 the page "
        "was written, 2 arguments are wrong or the fleet cannot be read, 3 the answer may be wrong, as a warning says."
    )
    add_source(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=(_HTML, _JSON),
        default=_HTML,
        help="the page, or the document in it (default: html)",
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what a map is made from."""
    fleet_arguments.add_source(parser)
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="waiting pods with this spec.schedulerName instead of the names in the profiles; may be repeated",
    )


def execute(options: argparse.Namespace) -> int:
    """Read the fleet, and write the page."""
    if options.output == _HTML and sys.stdout.isatty():
        raise UsageError("the page is for a browser: write `dovetail map > cluster.html`")
    configured = fleet_arguments.configured(options)
    read = fleet_arguments.reader(options, configured.settings, finds_gone_pods=True, reads_pods=True)
    began = dt.datetime.now(dt.UTC)
    found = read()
    if found.unreadable:
        return ExitStatus.WRONG
    _write(options, found, queue(options, found, configured.settings), began)
    return completed(ExitStatus.OK, found.forbidden, is_configured=configured.is_known)


def _write(
    options: argparse.Namespace,
    found: "FleetAnswer",
    waiting: "tuple[WaitingPod, ...] | None",
    began: dt.datetime,
) -> None:
    from scheduler.page import fleet_map, map_page  # noqa: PLC0415 - the solver takes a while to import

    document = map_page.encoded(fleet_map.map_of(found, waiting, origin(options, began)))
    if options.output == _JSON:
        sys.stdout.write(f"{terminal.escaped_json(document.decode())}\n")
    else:
        sys.stdout.write(map_page.page(document))


def origin(options: argparse.Namespace, began: dt.datetime) -> "MapOrigin":
    """Say when and from what the fleet was read."""
    from scheduler import version  # noqa: PLC0415 - reading it takes a while
    from scheduler.page.fleet_map import MapOrigin  # noqa: PLC0415 - as above

    source = terminal.escaped(_source(options))  # a file's name may hold bytes that are not UTF-8
    return MapOrigin(read_at=began.strftime("%Y-%m-%dT%H:%M:%SZ"), source=source, version=version())


def queue(options: argparse.Namespace, found: "FleetAnswer", settings: "Settings") -> "tuple[WaitingPod, ...] | None":
    """List the waiting pods as `dovetail queue` does; of a saved decision those that it is about."""
    from scheduler.simulation import queue_listing  # noqa: PLC0415 - as above

    if found.waiting is None:
        return None
    if options.snapshot:
        return queue_listing.listed(found.waiting, {each.pod.scheduler_name for each in found.waiting})
    return queue_listing.listed(found.waiting, options.scheduler_name or settings.scheduler_names)


def _source(options: argparse.Namespace) -> str:
    """Say in words where the fleet is from."""
    paths = manifests(options)
    if options.snapshot:
        return f"saved decision {options.snapshot.name}"
    if paths:
        return f"manifests {', '.join(path.name for path in paths)}"
    context = cluster_access(options).context
    return f"cluster {context}" if context else "cluster"
