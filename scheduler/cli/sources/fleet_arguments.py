"""Arguments of `devices` and `free`: where the fleet is read from, and which devices are shown."""

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scheduler.cli.arguments import (
    UsageError,
    add_format,
    add_manifests,
    add_selector,
    add_watch,
    cluster_access,
    completed,
    manifests,
    namespace_name,
    refuse,
    say,
    warn,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import (
    Configuration,
    ConfigurationReader,
    add_configured_cluster,
)
from scheduler.cli.sources.object_names import complete_names
from scheduler.cli.sources.running_scheduler import add_scheduler, ask, ended, is_asked
from scheduler.cli.sources.targets import Target, TargetKind, add_target, target_of

if TYPE_CHECKING:  # these take a second to import
    from scheduler.settings import Settings
    from scheduler.simulation.devices_output import FleetAnswer
    from scheduler.worker.fleet_questions import FleetDocument
    from solver.domain.fleet import FleetDevice, FleetQuery

_KINDS: Final = (TargetKind.NODE, TargetKind.POD, TargetKind.CLAIM, TargetKind.NAMESPACE)
_MOST_DEVICES: Final = "50000"
"""The most devices that a running scheduler lists."""


class FleetCommand(NamedTuple):
    """
    A command about the fleet.

    `answer_of` makes its answer of a fleet that was read and of the devices that are shown, `answer_in` takes it from
    what a running scheduler answers to the question `name`. `show` prints it. With `finds_gone_pods` the fleet that is
    read says which holders do not exist any more, with `matches_classes` which classes each device has.
    """

    name: str
    answer_of: "Callable[[FleetAnswer, list[FleetDevice]], Any]"
    answer_in: "Callable[[FleetDocument], Any]"
    show: "Callable[[argparse.Namespace, FleetAnswer, Any], None]"
    finds_gone_pods: bool = False
    matches_classes: bool = True


_STATUS: Final = (
    "Nothing is written to the cluster. Exit status: 0 the list was printed, 2 arguments are wrong, the object "
    "does not exist or the fleet cannot be read, 3 the answer may be wrong, as a warning says."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _STATUS
    add_target(parser, _KINDS, is_optional=True)
    either = parser.add_mutually_exclusive_group()
    action = either.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        metavar="NAMESPACE",
        help="only devices that this namespace's claims hold",
    )
    complete_names(action, "namespace")
    either.add_argument("-A", "--all-namespaces", action="store_true", help="all devices (default)")
    add_selector(parser, "devices of nodes")
    add_source(parser)
    add_scheduler(parser, is_optional=True)
    add_format(parser, has_wide=True)
    add_watch(parser)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the fleet is read from; `reader` reads it."""
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
    add_configured_cluster(parser)


def configured(options: argparse.Namespace) -> Configuration:
    """Return the configuration that the fleet is read with. Raise `UsageError`, `SettingsError` and `KubeError`."""
    return _configurations(options).chosen()


def _configurations(options: argparse.Namespace) -> ConfigurationReader:
    """Return what reads the configuration, and the reserved nodes. Raise `UsageError`."""
    paths = manifests(options)
    if paths and options.snapshot:
        raise UsageError("give --snapshot or -f, not both")
    if getattr(options, "watch", False) and (paths or options.snapshot):
        raise UsageError("--watch asks a live cluster again: leave out -f and --snapshot")
    return ConfigurationReader(options, None if paths or options.snapshot else cluster_access(options))


def reader(
    options: argparse.Namespace,
    settings: "Settings",
    *,
    finds_gone_pods: bool,
    reads_pods: bool = False,
    matches_classes: bool = True,
    warns: bool = True,
) -> "Callable[[], FleetAnswer]":
    """
    Return the function that reads the fleet; with `warns` it warns of what cannot be read.

    With `reads_pods` the answer has the pods as well. It raises `UsageError`.
    """
    from scheduler.simulation import fleet_reading  # noqa: PLC0415 - the solver takes a while to import

    paths = manifests(options)
    label = options.group_label or settings.metrics.node_group_label
    policy = settings.policy(settings.profiles[0].scheduler_name)

    def read() -> "FleetAnswer":
        if options.snapshot:
            from scheduler.simulation import simulator  # noqa: PLC0415 - it imports the search, which takes a second

            try:
                found = fleet_reading.from_file(options.snapshot, label)
            except simulator.SavedError as error:
                raise UsageError(str(error)) from error
        elif paths:
            found = fleet_reading.from_manifests(paths, policy, label, reads_pods=reads_pods)
        else:
            access = cluster_access(options)
            found = fleet_reading.from_cluster(
                access,
                policy,
                label,
                finds_gone_pods=finds_gone_pods,
                reads_pods=reads_pods,
                matches_classes=matches_classes,
            )
        if warns:
            report_of(found)
        return found

    return read


def report_of(found: "FleetAnswer") -> None:
    """Write what cannot be read, and what is odd about the rest."""
    for text in found.unreadable:
        say(text)
    for warning in found.warnings:
        warn(warning)


def run(options: argparse.Namespace, command: FleetCommand) -> int:
    """
    Show the answer of a command about the chosen devices; with `--watch` again whenever it changes.

    Return the exit status of a list that was printed; nothing is printed of a fleet of which files cannot be read.
    Raise `UsageError`.
    """
    query = _query(options)
    if is_asked(options):
        return _run_by_scheduler(options, command, query)
    return _run_by_reading(options, command, query)


def _run_by_reading(options: argparse.Namespace, command: FleetCommand, query: "FleetQuery") -> int:
    """Read the fleet, and show the answer."""
    import msgspec  # noqa: PLC0415 - it is not needed for help and completion

    from scheduler.cli.sources import watching  # noqa: PLC0415 - only for --watch

    running = _configurations(options)
    read = reader(
        options,
        running.chosen().settings,
        finds_gone_pods=command.finds_gone_pods,
        matches_classes=command.matches_classes,
    )

    def ask_cluster() -> "tuple[FleetAnswer, Any]":
        found = read()
        if not found.knows_nodes and found.fleet.devices:
            raise UsageError("nodes may not be listed, and without them it is not known which devices can be used")
        from solver import selected_devices, selected_pools  # noqa: PLC0415 - it is imported while the cluster is read

        devices = selected_devices(found.fleet, query, found.node_labels.items())
        shown = msgspec.structs.replace(found.fleet, pools=selected_pools(found.fleet, query, devices))
        is_live = not (manifests(options) or options.snapshot) and found.knows_holders
        reserved = running.reserved_nodes() if is_live else found.reserved_nodes
        is_there = bool(devices) or not query.node or not found.knows_nodes or query.node in found.node_labels
        found = dataclasses.replace(found, fleet=shown, has_node=is_there, reserved_nodes=reserved)
        return found, command.answer_of(found, devices)

    if options.watch:
        watching.watch(ask_cluster, lambda answer: command.show(options, *answer))
    found, answer = ask_cluster()
    if found.unreadable:
        return ExitStatus.WRONG
    if not found.has_node:
        return _no_node(command, query, found.node_labels, found.fleet.devices)
    is_live = not (manifests(options) or options.snapshot)
    asked = _asked_object(query)
    if is_live and asked is not None and not _holds(found.fleet.devices, query):
        from scheduler.cli.sources.absent_objects import absence  # noqa: PLC0415 - the cluster's client takes a while to import

        if missing := absence(asked, cluster_access(options)):
            return refuse(f"{command.name}: {missing}")
    command.show(options, found, answer)
    return completed(ExitStatus.OK, found.forbidden, is_configured=running.is_known)


def _asked_object(query: "FleetQuery") -> Target | None:
    """Return the pod, the claim or the namespace whose devices are asked about; None without one."""
    if query.pod is not None:
        return Target(TargetKind.POD, *query.pod)
    if query.claim is not None:
        return Target(TargetKind.CLAIM, *query.claim)
    return Target(TargetKind.NAMESPACE, "", query.namespace) if query.namespace else None


def _holds(devices: "Iterable[FleetDevice]", query: "FleetQuery") -> bool:
    """Whether what is asked about holds a device of the whole fleet, so that it is certain to exist."""
    for holder in (each for device in devices for each in device.holders):
        if query.pod is not None or query.claim is not None:
            if query.pod in holder.pods or query.claim == holder.claim:
                return True
        elif query.namespace == holder.claim.namespace:
            return True
    return False


def _no_node(
    command: FleetCommand, query: "FleetQuery", known: Iterable[str], devices: "Iterable[FleetDevice]" = ()
) -> int:
    """Say that the node of a query does not exist, and which one may be meant; the name may be that of devices."""
    from solver.domain import wording  # noqa: PLC0415 - it is not needed for help and completion

    having = sorted({each.node for each in devices if each.id.device == query.node and each.node})
    if having:
        of_nodes = f"; it is a device of {wording.counted(len(having), 'node')}: write node/{having[0]} for its devices"
        return refuse(f"{command.name}: there is no node {query.node}{of_nodes}")
    return refuse(f"{command.name}: there is no node {query.node}{wording.did_you_mean(query.node, known)}")


def _run_by_scheduler(options: argparse.Namespace, command: FleetCommand, query: "FleetQuery") -> int:
    """Show what a running scheduler answers."""
    from scheduler.cli.sources import watching  # noqa: PLC0415 - only for --watch

    if manifests(options) or options.snapshot:
        raise UsageError("--service and --server ask a running scheduler: leave out -f and --snapshot")
    access = cluster_access(options)

    def ask_scheduler() -> "FleetDocument":
        return ask(options, access, command.name, _parameters(options, query), _document)

    def show(found: "FleetDocument") -> None:
        from scheduler.simulation.devices_output import FleetAnswer  # noqa: PLC0415 - the printing takes a while to import
        from solver.domain.fleet import Fleet  # noqa: PLC0415 - as above

        if found.age_seconds:
            warn(f"as it was {found.age_seconds:.0f} s ago: the solver decides about pods, and has no time now")
        fleet = Fleet(pools=found.pools, sizes=found.sizes, broken_classes=found.broken_classes)
        command.show(options, FleetAnswer(fleet, reserved_nodes=None), command.answer_in(found))

    if options.watch:
        watching.watch(ask_scheduler, show)
    found = ask_scheduler()
    if not found.has_node:
        return _no_node(command, query, ())
    show(found)
    return ended(found.hidden, is_truncated=found.truncated)


def _document() -> "type[FleetDocument]":
    """Import the type of a running scheduler's answer, and what prints it."""
    from scheduler.simulation import supply_output  # noqa: F401, PLC0415 - the printing takes a while to import
    from scheduler.worker.fleet_questions import FleetDocument  # noqa: PLC0415 - as above

    return FleetDocument


def _parameters(options: argparse.Namespace, query: "FleetQuery") -> dict[str, str]:
    """Return the parameters of a question to a running scheduler."""
    named = query.pod or query.claim
    return {
        "node": query.node,
        "selector": str(query.nodes or ""),
        "namespace": named.namespace if named else query.namespace,
        "pod": query.pod.name if query.pod else "",
        "claim": query.claim.name if query.claim else "",
        "groupLabel": options.group_label or "",
        **({"by": ",".join(options.by)} if "by" in options else {"limit": _MOST_DEVICES}),
    }


def _query(options: argparse.Namespace) -> "FleetQuery":
    """Return the question about the object, `-n` and `-l`. Raise `UsageError`."""
    from solver.domain import ClaimId, PodId  # noqa: PLC0415 - as above
    from solver.domain.fleet import FleetQuery  # noqa: PLC0415 - as above

    query = FleetQuery(nodes=options.selector, namespace=options.namespace or "")
    if not options.target:
        return query
    is_local = bool(options.snapshot or options.filename)
    kind, namespace, name, _ = target_of(options.target, options, _KINDS, None if is_local else cluster_access(options))
    match kind:
        case TargetKind.NODE:
            return FleetQuery(nodes=query.nodes, namespace=query.namespace, node=name)
        case TargetKind.POD:
            return FleetQuery(nodes=query.nodes, pod=PodId(namespace, name))
        case TargetKind.CLAIM:
            return FleetQuery(nodes=query.nodes, claim=ClaimId(namespace, name))
        case _:
            return FleetQuery(nodes=query.nodes, namespace=name)
