"""`dovetail explain OBJECT`: why a pod or gang waits and what would let it in, or why a pod is where it is."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scheduler.cli.arguments import (
    TABLE,
    WIDE,
    UsageError,
    add_format,
    add_namespace,
    cluster_access,
    completed,
    refuse,
    say,
    warn,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import Configuration, ConfigurationReader, add_configured_cluster
from scheduler.cli.sources.targets import Target, TargetKind, add_target, target_of

if TYPE_CHECKING:  # these take a second to import
    from collections.abc import Sequence

    from scheduler.cli.sources.podless_maker import SeenCluster
    from solver.domain import Pod

_MOST_NAMES: Final = 4
_KINDS: Final = (TargetKind.POD, TargetKind.POD_GROUP, TargetKind.OWNER)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Of a Job, a Deployment or another object that makes pods it explains the gang, else the first pod that waits; "
        "of one that is suspended, who resumes it. "
        "Nothing is written to the cluster. Exit status: 0 the pod or gang runs or would be placed, 1 it waits, 2 it "
        "cannot be found or read, 3 the answer may be wrong, as a warning says."
    )
    add_target(parser, _KINDS)
    add_namespace(parser)
    parser.add_argument(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="use a file that `dovetail simulate --save` wrote instead of the live cluster",
    )
    add_configured_cluster(parser)
    add_format(parser, has_wide=True, wide="names all nodes and explains all kinds of pods of a gang")


def execute(options: argparse.Namespace) -> int:
    """Read, explain, print."""
    access = None if options.snapshot else cluster_access(options)
    target = target_of(options.target, options, _KINDS, access)
    seen = _live(options, access, target) if access else _from_file(options.snapshot)
    if seen is None:
        return ExitStatus.WRONG
    if target.kind is TargetKind.OWNER:
        found = _of_owner(target, seen)
        if found is None:
            return _without_pods(options, target, seen)
        target = found
    if target.kind is TargetKind.POD_GROUP:
        return _gang(options, target, seen)
    return _pod(options, target, seen)


class _Seen(NamedTuple):
    """
    The case (None: the caller may not read what it needs), pods with conditions, PodGroups, and forbidden kinds.

    `warnings` are those of the kubelet, by pod.
    `configured` is the configuration of the running scheduler; with `is_known` it and the reserved nodes are known.
    `known` is what else exists. `cluster` is the live one.
    """

    asked: Any
    pods: dict[Any, Any]
    warnings: dict[Any, Any]
    groups: tuple[Any, ...] = ()
    forbidden: tuple[str, ...] = ()
    is_live: bool = True
    configured: "Configuration | None" = None
    is_known: bool = True
    known: Any = None
    unserved: str = ""
    cluster: "SeenCluster | None" = None

    def warn_of_no_scheduler(self) -> None:
        """Say before an answer that no scheduler runs."""
        if self.configured is not None:
            self.configured.warn_of_no_scheduler()

    def completed(self, *, waits: bool) -> int:
        """Return the exit status of an answer about pods that wait, or run or would be placed."""
        status = ExitStatus.NO if waits else ExitStatus.OK
        return completed(status, self.forbidden, is_configured=self.is_known)

    @property
    def idle(self) -> str:
        """Why no scheduler places a pod that would be placed, "" where one does."""
        return self.configured.idle if self.configured is not None else ""


def _of_owner(target: Target, seen: _Seen) -> Target | None:
    """Return the gang of what makes pods, else the first pod that waits, else the first one; None without pods."""
    from scheduler.kube.pod_writes import PendingPod  # noqa: PLC0415 - the solver takes a second
    from scheduler.queue import in_queue_order  # noqa: PLC0415 - as above
    from scheduler.simulation.owned_pods import owned  # noqa: PLC0415 - as above
    from solver.domain import wording  # noqa: PLC0415 - as above

    pods = in_queue_order(owned(seen.known.pods, target.owner, target.namespace, target.name))
    if not pods:
        return None
    gangs = sorted({pod.gang.name for pod in pods if pod.gang is not None})
    if len(gangs) > 1:
        raise UsageError(f"{target} has the gangs {wording.shortened(gangs, _MOST_NAMES)}: write gang/{gangs[0]}")
    if gangs:
        return Target(TargetKind.POD_GROUP, target.namespace, gangs[0])
    waiting = [pod for pod in pods if pod.is_pending]
    first = next(iter(waiting or [pod for pod in pods if pod.node_name] or pods))
    if len(pods) > 1:
        say(f"{target} has {len(pods)} pods, and {len(waiting) or 'none'} of them wait: this is pod {first.id.name}")
    seen.pods.setdefault(first.id, PendingPod(first, None))
    return Target(TargetKind.POD, target.namespace, first.id.name)


def _without_pods(options: argparse.Namespace, target: Target, seen: _Seen) -> int:
    """Explain an object that makes pods and has none, or say that there is none of its name."""
    from scheduler.cli.sources import absent_objects, podless_maker  # noqa: PLC0415 - as above

    if missing := absent_objects.missing_namespace(target.namespace, seen.known):
        return refuse(f"explain: {missing}")
    near = absent_objects.near_owner(target, seen.known)
    if seen.cluster is None:
        return refuse(f"explain: there is no pod of {target}{near}")
    return podless_maker.explain(options, target, seen.cluster, near)


def _pod(options: argparse.Namespace, target: Target, seen: _Seen) -> int:
    from scheduler.cli.sources import absent_objects  # noqa: PLC0415 - the solver takes a second
    from scheduler.simulation import explanation, explanation_output, printing  # noqa: PLC0415 - as above
    from solver.domain import PodId  # noqa: PLC0415 - and this

    pod = seen.pods.get(PodId(target.namespace, target.name))
    if pod is None:
        missing = absent_objects.absent(target, seen.known)
        if seen.is_live and missing == f"{target} does not exist":
            missing += f"; `dovetail history {target}` asks the running scheduler what became of it"
        return refuse(f"explain: {missing}")
    seen.warn_of_no_scheduler()
    found = explanation.of_pod(seen.asked, pod, seen.warnings.get(pod.pod.id, ()), is_live=seen.is_live)
    if found.pod.is_pending:
        found = found._replace(unserved=seen.unserved, idle=seen.idle)
    if options.output in {TABLE, WIDE}:
        explanation_output.show(found, sys.stdout, is_wide=options.output == WIDE)
    else:
        sys.stdout.write(printing.text("Explanation", explanation_output.document(found), options.output))
    return seen.completed(waits=found.waits or (found.pod.is_pending and bool(seen.idle)))


def _gang(options: argparse.Namespace, target: Target, seen: _Seen) -> int:
    from scheduler.cli.sources import absent_objects  # noqa: PLC0415 - as above
    from scheduler.simulation import explanation, printing  # noqa: PLC0415 - as above
    from solver.domain import PodId  # noqa: PLC0415 - and this

    if seen.asked is None:
        warn("a gang can be explained only with the rights to list these kinds")
        return seen.completed(waits=True)
    name = PodId(target.namespace, target.name)
    objects = explanation.GangObjects(seen.pods.values(), seen.groups, seen.is_live, seen.unserved, seen.idle)
    found = explanation.of_gang(seen.asked, name, objects, explanation.MOST_KINDS if options.output == TABLE else None)
    if found is None:
        return refuse(f"explain: {absent_objects.absent(target, seen.known)}")
    seen.warn_of_no_scheduler()
    if options.output in {TABLE, WIDE}:
        explanation.show_gang(found, sys.stdout, is_wide=options.output == WIDE)
    else:
        sys.stdout.write(printing.text("GangExplanation", explanation.gang_document(found), options.output))
    return seen.completed(waits=found.waits or (bool(found.waiting) and bool(seen.idle)))


def _from_file(path: Path) -> _Seen | None:
    """Read a saved case; say why and return None where it cannot be used."""
    from scheduler.cli.sources.absent_objects import KnownObjects  # noqa: PLC0415 - as above
    from scheduler.kube.pod_writes import PendingPod  # noqa: PLC0415 - as above
    from scheduler.simulation import simulator  # noqa: PLC0415 - as above

    try:
        asked = simulator.load(path)
    except simulator.SavedError as error:
        refuse(str(error))
        return None
    pods = {pod.id: PendingPod(pod, None) for pod in (*asked.snapshot.pods, *asked.batch.pods)}
    return _Seen(asked, pods, {}, is_live=False, known=KnownObjects(tuple(pod.pod for pod in pods.values())))


def _live(options: argparse.Namespace, access: Any, target: Target) -> _Seen:
    """Read the live cluster as the scheduler would that the pod names, and the conditions of pods."""
    from scheduler.simulation import live_cluster  # noqa: PLC0415 - the cluster's client takes a while to import

    name = target.name if target.kind is TargetKind.POD else ""
    running = ConfigurationReader(options, access)
    meanwhile = running.read, live_cluster.load_solver
    found, (pods, warnings) = live_cluster.fetch_with_conditions(access, target.namespace, name, meanwhile=meanwhile)
    from scheduler.cli.sources.absent_objects import KnownObjects  # noqa: PLC0415 - as above
    from scheduler.cli.sources.podless_maker import SeenCluster  # noqa: PLC0415 - as above
    from scheduler.simulation import case_builder, explanation, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above
    from solver.domain import Namespace, PodGroup  # noqa: PLC0415 - and this

    missing = explanation.NEEDED & set(found.forbidden)
    cluster = SeenCluster(access, found, running, is_whole=not missing)
    if missing:
        return _Seen(None, pods, warnings, forbidden=found.forbidden, known=KnownObjects(), cluster=cluster)
    made = case_builder.CaseBuilder.of(found, documents.ManifestFiles())
    asked = _meant(made.pods, target)
    wanted = next((pod.scheduler_name for pod in asked), "")
    configured = running.chosen(wanted)
    is_picked_up = any(pods[each.id].condition for each in asked if each.id in pods)
    name, settings, unserved = configured.serving(wanted, is_picked_up=is_picked_up)
    groups = tuple(change.value for change in found.changes if isinstance(change.value, PodGroup))
    joining = {pod.id for pod in asked if unserved}
    case = simulator.recorded(made.case(name, joining), settings, name, running.reservations(made.pods))
    namespaces = frozenset(change.key for change in found.changes if isinstance(change.value, Namespace))
    known = KnownObjects(made.pods, tuple(each.id[:2] for each in groups), namespaces)
    return _Seen(
        case,
        pods,
        warnings,
        groups,
        found.forbidden,
        configured=configured,
        is_known=running.is_known,
        known=known,
        unserved=unserved,
        cluster=cluster,
    )


def _meant(pods: "Sequence[Pod]", target: Target) -> "tuple[Pod, ...]":
    """Return the pods that a command is about."""
    from scheduler.simulation.moves import planned_moves  # noqa: PLC0415 - as above
    from scheduler.simulation.owned_pods import owned  # noqa: PLC0415 - as above

    if target.kind is TargetKind.OWNER:
        return owned(pods, target.owner, target.namespace, target.name)
    kind = "gang" if target.kind is TargetKind.POD_GROUP else "pod"
    return planned_moves.pods_meant(pods, kind, f"{target.namespace}/{target.name}")
