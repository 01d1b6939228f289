"""`dovetail quota`: who is guaranteed, holds and waits for how many devices, and who would lose what next."""

import argparse
import sys
from typing import TYPE_CHECKING

from scheduler.cli.arguments import (
    TABLE,
    WIDE,
    UsageError,
    add_format,
    add_manifests,
    add_namespace,
    cluster_access,
    completed,
    manifests,
    read_manifests,
    report,
    say,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import ConfigurationReader, add_configured_cluster
from scheduler.cli.sources.object_names import complete_names
from scheduler.cli.sources.targets import TargetKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.kube.access import ClusterAccess
    from scheduler.settings import Settings
    from solver.domain import QuotaState


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The last lines say which pods a reclaim would evict next, by the least harm that docs/quotas.md describes. "
        "Nothing is written to the cluster. Exit status: 0 the quotas were printed, 1 the namespace has no quota, 2 "
        "arguments are wrong, the quota does not exist or input cannot be read, 3 the answer may be wrong, as a "
        "warning says."
    )
    action = parser.add_argument("name", nargs="?", metavar="NAME", help="only this quota and those below it")
    complete_names(action, "devicequota")
    add_manifests(parser, "use manifests instead of the live cluster; may be repeated", is_single=True)
    add_namespace(parser, "the quota to show; with -f of the objects in the files that name none")
    add_configured_cluster(parser)
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        help="reclaim as this scheduler (default: that of the first profile)",
    )
    parser.add_argument(
        "--no-reclaim", action="store_true", help="leave out who would lose what next: it is solved for"
    )
    add_format(parser, has_wide=True)


def execute(options: argparse.Namespace) -> int:
    """Read, count and print."""
    paths = manifests(options)
    of_namespace = _asked_namespace(options, is_live=not paths)
    access = None if paths else cluster_access(options)
    running = ConfigurationReader(options, access)
    from scheduler.change import Kind  # noqa: PLC0415 - the values take a while to import
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - the cluster's client takes a while to import

    found = live_cluster.ClusterObjects() if access is None else live_cluster.fetch(access, meanwhile=(running.read,))
    configured = running.chosen(options.scheduler_name)
    scheduler_name, settings = configured.served(options.scheduler_name)
    from scheduler.simulation import (  # noqa: PLC0415 - the solver takes a second to import
        case_builder,
        case_warnings,
        printing,
        simulator,
    )
    from scheduler.simulation.quotas import next_reclaims, quota_document, quota_listing  # noqa: PLC0415 - as above
    from solver import quotas_of  # noqa: PLC0415 - as above

    case = case_builder.CaseBuilder.of(found, read_manifests(options, access)).case(scheduler_name)
    report(case.warnings, case.problems)
    if "devicequotas" in found.forbidden:
        raise UsageError("devicequotas may not be listed")
    if access is not None and not found.served.has(Kind.QUOTAS):
        say("the cluster has no DeviceQuotas: deploy/components/device-quotas defines them")
    asked = simulator.recorded(case, settings, scheduler_name)
    every = quotas_of(asked.snapshot, asked.batch.pods, asked.policy)
    states = _chosen(every, options.name, of_namespace)
    if not states and (options.name or of_namespace):
        return _unknown(options, every, of_namespace, access)
    served = configured.scheduler_names or settings.scheduler_names
    own = {each for state in states for each in state.namespaces}
    left_out = (pod for pod in case.left_out if pod.id.namespace in own and pod.scheduler_name in served)
    report(case_warnings.other_schedulers(left_out, scheduler_name), ())
    reclaims = next_reclaims.NextReclaims()
    if not options.no_reclaim:
        reclaims = next_reclaims.next_reclaims(asked, every, {state.quota for state in states})
    reclaiming = [each for each in settings.scheduler_names if _reclaims(settings, each)]
    if options.output in {TABLE, WIDE}:
        said = _without_reclaim(scheduler_name, reclaiming)
        quota_listing.show(states, reclaims, sys.stdout, is_wide=options.output == WIDE, without_reclaim=said)
    else:
        made = quota_document.document(
            states, reclaims, may_reclaim=scheduler_name in reclaiming, reclaiming=reclaiming
        )
        sys.stdout.write(printing.text("QuotaList", made, options.output))
    if case.problems:
        return ExitStatus.WRONG
    return completed(ExitStatus.OK, found.forbidden, is_configured=configured.is_known)


def _asked_namespace(options: argparse.Namespace, *, is_live: bool) -> str:
    """Return the namespace whose quota is asked for, "" without one. Raise `UsageError`."""
    kind, slash, name = (options.name or "").partition("/")
    if slash:
        meant = f"; for the quota of a namespace write -n {name}" if kind_of(kind) == TargetKind.NAMESPACE else ""
        raise UsageError(f"{options.name!r} is no name of a DeviceQuota: write one without /{meant}")
    if not (is_live and options.namespace):
        return ""
    if options.name:
        raise UsageError("a NAME and -n choose different quotas: leave one of them out")
    return str(options.namespace)


def _chosen(every: "Sequence[QuotaState]", name: str | None, namespace: str) -> "Sequence[QuotaState]":
    """Return the quota of a name or of a namespace with those below it; without both all quotas."""
    if namespace:
        name = next((each.quota for each in every if namespace in each.namespaces), "")
    return every if name is None else _below(every, name)


def _unknown(
    options: argparse.Namespace, every: "Sequence[QuotaState]", namespace: str, access: "ClusterAccess | None"
) -> int:
    """Say that there is no such quota, or none of a namespace. Raise `UsageError` where that does not exist."""
    from scheduler.cli.sources import absent_objects  # noqa: PLC0415 - the solver takes a second to import
    from solver.domain import wording  # noqa: PLC0415 - as above

    if namespace:
        if access is not None:
            absent_objects.refuse_missing_namespace(namespace, access)
        say(f"quota: no DeviceQuota counts for namespace {namespace}")
        return ExitStatus.NO
    name = options.name
    meant = wording.did_you_mean(name, (each.quota for each in every))
    of_namespace = next((each.quota for each in every if name in each.namespaces), "")
    if of_namespace:
        meant = f"; namespace {name} has quota {of_namespace}: write {of_namespace}, or -n {name}"
    say(f"quota: there is no DeviceQuota {name}{meant}")
    return ExitStatus.WRONG


def _reclaims(settings: "Settings", scheduler_name: str) -> bool:
    rules = settings.policy(scheduler_name).preemption
    return rules.is_enabled and rules.reclaims


def _without_reclaim(scheduler_name: str, reclaiming: "Sequence[str]") -> str:
    """Say whose pods wait for a guarantee until others end; empty where those of the profile do not."""
    if scheduler_name in reclaiming:
        return ""
    whose = "preemption.reclaim is off: nobody is evicted for a guarantee"
    if reclaiming:
        whose = f"preemption.reclaim of profile {scheduler_name} is off (it is on for {', '.join(reclaiming)}): "
        whose += "nobody is evicted for a guarantee of its pods"
    return f"{whose}, which waits until pods that borrow end."


def _below(states: "Sequence[QuotaState]", name: str) -> "tuple[QuotaState, ...]":
    """Return a quota and those below it, which follow it."""
    first = next((number for number, each in enumerate(states) if each.quota == name), len(states))
    rest = states[first + 1 :]
    last = next((number for number, each in enumerate(rest) if each.depth <= states[first].depth), len(rest))
    return (*states[first : first + 1], *rest[:last])
