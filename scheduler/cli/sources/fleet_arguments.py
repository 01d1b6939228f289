"""Arguments of `devices` and `free`: where the fleet is read from, and which devices are shown."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.arguments import (
    UsageError,
    add_cluster,
    add_format,
    add_manifests,
    add_selector,
    add_watch,
    cluster_access,
    completed,
    manifests,
    say,
    settings_for,
    warn,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.targets import TargetKind, add_target, target_of

if TYPE_CHECKING:  # these take a second to import
    from scheduler.simulation.fleet_reading import FleetAnswer
    from solver.domain.fleet import FleetDevice

_KINDS: Final = (TargetKind.NODE, TargetKind.POD, TargetKind.CLAIM, TargetKind.NAMESPACE)
Wanted = Callable[["FleetDevice"], bool]
"""Whether a device is shown."""
AnswerOf = Callable[["FleetAnswer", "list[FleetDevice]"], Any]
"""What a command says of the devices that are shown."""
Show = Callable[[argparse.Namespace, "FleetAnswer", Any], None]
"""Prints that answer."""
_STATUS: Final = (
    "Nothing is written to the cluster. Exit status: 0 the list was printed, 2 arguments are wrong or the fleet cannot "
    "be read, 3 some kinds of objects may not be listed."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _STATUS
    add_target(parser, _KINDS, is_optional=True)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("-n", "--namespace", metavar="NAMESPACE", help="only devices that this namespace's claims hold")
    either.add_argument("-A", "--all-namespaces", action="store_true", help="all devices (default)")
    add_selector(parser, "devices of nodes")
    parser.add_argument(
        "--group-label",
        metavar="LABEL",
        help="node label whose values are groups of nodes (default: metrics.nodeGroupLabel of the configuration)",
    )
    parser.add_argument(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="use a file that `dovetail simulate --save` wrote instead of the live cluster",
    )
    add_manifests(parser, "use manifests instead of the live cluster; may be repeated", is_single=True)
    add_cluster(parser)
    add_format(parser, has_wide=True)
    add_watch(parser)


def _reader(options: argparse.Namespace) -> "Callable[[], FleetAnswer]":
    """Return the function that reads the fleet; it warns of what cannot be read. Raise `UsageError`."""
    from scheduler.simulation import fleet_reading, simulator  # noqa: PLC0415 - the solver takes a second to import

    paths = manifests(options)
    if paths and options.snapshot:
        raise UsageError("give --snapshot or -f, not both")
    if options.watch and (paths or options.snapshot):
        raise UsageError("--watch asks a live cluster again: leave out -f and --snapshot")
    _, settings = settings_for(options.config, None)
    label = options.group_label or settings.metrics.node_group_label
    policy = settings.policy(settings.profiles[0].scheduler_name)

    def read() -> "FleetAnswer":
        if options.snapshot:
            try:
                found = fleet_reading.from_file(options.snapshot, label)
            except simulator.SavedError as error:
                raise UsageError(str(error)) from error
        elif paths:
            found = fleet_reading.from_manifests(paths, policy, label)
        else:
            found = fleet_reading.from_cluster(cluster_access(options), policy, label)
        for text in found.unreadable:
            say(text)
        for warning in found.warnings:
            warn(warning)
        return found

    return read


def run(options: argparse.Namespace, answer_of: AnswerOf, show: Show) -> int:
    """
    Read the fleet, and show the answer about the chosen devices; with `--watch` again whenever it changes.

    Return the exit status of a list that was printed. Raise `UsageError`.
    """
    from scheduler.cli import watching  # noqa: PLC0415 - only for --watch

    wanted, read = _wanted_by(options), _reader(options)

    def ask() -> "tuple[FleetAnswer, Any]":
        found = read()
        return found, answer_of(found, _chosen(options, found, wanted))

    if options.watch:
        watching.watch(ask, lambda answer: show(options, *answer))
    found, answer = ask()
    show(options, found, answer)
    return ExitStatus.WRONG if found.unreadable else completed(ExitStatus.OK, found.forbidden)


def _chosen(options: argparse.Namespace, answer: "FleetAnswer", wanted: Wanted) -> "list[FleetDevice]":
    """Return the devices that `wanted` and `-l` choose, by node."""
    nodes = answer.selected(options.selector) if options.selector is not None else None
    found = [device for device in answer.fleet.devices if wanted(device) and (nodes is None or _is_on(device, nodes))]
    found.sort(key=lambda device: (device.node, device.id))
    return found


def _is_on(device: "FleetDevice", nodes: frozenset[str]) -> bool:
    return bool(nodes) if device.nodes is None else not nodes.isdisjoint(device.nodes)


def _wanted_by(options: argparse.Namespace) -> Wanted:
    """Return the condition of the object or of `-n`. Raise `UsageError`."""
    from solver.domain import ClaimId, PodId  # noqa: PLC0415 - as above

    def is_held(device: "FleetDevice") -> bool:
        return not options.namespace or any(each.claim.namespace == options.namespace for each in device.holders)

    if not options.target:
        return is_held
    is_local = bool(options.snapshot or options.filename)
    kind, namespace, name = target_of(options.target, options, _KINDS, None if is_local else cluster_access(options))
    match kind:
        case TargetKind.NODE:
            return lambda device: is_held(device) and (_is_on(device, frozenset((name,))) or device.node == name)
        case TargetKind.POD:
            return lambda device: any(PodId(namespace, name) in each.pods for each in device.holders)
        case TargetKind.CLAIM:
            return lambda device: any(each.claim == ClaimId(namespace, name) for each in device.holders)
        case _:
            return lambda device: any(each.claim.namespace == name for each in device.holders)
