"""Goals of a repair: of an object that somebody names, and all of a fleet, the most important first."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceId,
    Gang,
    GangId,
    GoalKind,
    Node,
    Pod,
    PodClaim,
    PodId,
    Policy,
    RepairGoal,
    RepairTargets,
    Request,
    Snapshot,
    SubRequest,
    loose_gangs,
)
from solver.fleet import fleet_of, totals_of
from solver.problem.solver_cache import SolverCache
from solver.repair.failed_devices import failed_devices

_ROOM: Final = "<room>"
"""The name of the pod that stands for the next typical request; no pod can have it."""


def goals_of(
    snapshot: Snapshot, waiting: Batch, policy: Policy, targets: RepairTargets, cache: SolverCache | None = None
) -> tuple[RepairGoal, ...]:
    """
    Return the goals of a fleet, the most important first.

    Waiting pods come first, by priority and in queue order, gangs whole; then failed devices, nodes that go, and
    fragmentation.
    """
    return (
        *_waiting_goals(waiting),
        *_device_goals(snapshot, policy),
        *_node_goals(snapshot, policy, targets),
        *_fragmentation_goals(snapshot, policy, targets, cache or SolverCache()),
    )


def goal_of_pods(snapshot: Snapshot, waiting: Batch, pods: Sequence[Pod], subject: str) -> RepairGoal:
    """
    Return the goal of a pod, or of the pods of a gang.

    Those that wait want a place. Of those that run, the ones on failed devices have to leave; `leaving` is empty where
    none is on one.
    """
    wanted = tuple(pod for pod in waiting.pods if pod.id in {each.id for each in pods})
    if wanted:
        batch = Batch(pods=wanted, gangs=waiting.gangs_of(wanted))
        value = "it gets a place" if len(wanted) == 1 else f"{len(wanted)} pods get a place"
        return RepairGoal(kind=GoalKind.WAITING, subject=subject, value=value, wanted=batch)
    return _leaving_devices(snapshot, pods, failed_devices(snapshot), subject)


def goal_of_nodes(snapshot: Snapshot, names: Collection[str], policy: Policy, subject: str) -> RepairGoal:
    """Return the goal of nodes that are to be emptied; pods that belong to their node stay."""
    leaving = tuple(
        pod.id
        for pod in snapshot.pods
        if pod.node_name in names
        and not pod.belongs_to_node
        and pod.scheduler_name in policy.preemption.scheduler_names
    )
    value = f"{len(leaving)} pods leave {len(names)} node{'s' if len(names) != 1 else ''}"
    return RepairGoal(kind=GoalKind.NODES, subject=subject, value=value, leaving=leaving, nodes=tuple(sorted(names)))


def goal_of_devices(snapshot: Snapshot, devices: Collection[DeviceId], subject: str) -> RepairGoal:
    """
    Return the goal of devices that are to go, for the pods of all schedulers.

    Their successors get none of the failed devices either.
    """
    holding = [pod for pod in snapshot.pods if pod.claims]
    goal = _leaving_devices(snapshot, holding, dict.fromkeys(devices, "it is to go"), subject)
    return replace(goal, devices=tuple(sorted({*devices, *failed_devices(snapshot)}))) if goal.leaving else goal


def _waiting_goals(waiting: Batch) -> Iterator[RepairGoal]:
    """All gangs and pods of one priority together, then each of them alone, where together they are more than one."""
    by_priority: defaultdict[int, list[Pod]] = defaultdict(list)
    for pod in waiting.levelled().pods:
        by_priority[pod.priority].append(pod)
    for priority in sorted(by_priority, reverse=True):
        units = _units(by_priority[priority], waiting.gangs)
        if len(units) > 1:
            pods = [pod for unit in units.values() for pod in unit]
            yield _wanting(waiting, pods, f"{len(units)} waiting pods and gangs of priority {priority}")
        for (kind, name), unit in units.items():
            yield _wanting(waiting, unit, f"{kind} {name}")


def _units(pods: Iterable[Pod], gangs: Iterable[Gang]) -> dict[tuple[str, PodId | GangId], list[Pod]]:
    """Group the pods of each gang; all others are alone, also those of a group that does not tie them together."""
    loose = loose_gangs(gangs)
    units: dict[tuple[str, PodId | GangId], list[Pod]] = {}
    for pod in pods:
        key = ("pod", pod.id) if pod.gang is None or pod.gang in loose else ("gang", pod.gang)
        units.setdefault(key, []).append(pod)
    return units


def _wanting(waiting: Batch, pods: Sequence[Pod], subject: str) -> RepairGoal:
    batch = Batch(pods=tuple(pods), gangs=waiting.gangs_of(pods))
    value = "it gets a place" if len(pods) == 1 else f"{len(pods)} pods get a place"
    return RepairGoal(kind=GoalKind.WAITING, subject=subject, value=value, wanted=batch)


def _device_goals(snapshot: Snapshot, policy: Policy) -> Iterator[RepairGoal]:
    """Return a goal for each pod or gang on failed devices, by priority."""
    failed = failed_devices(snapshot)
    if not failed:
        return
    own = [pod for pod in snapshot.pods if pod.scheduler_name in policy.preemption.scheduler_names and pod.claims]
    units = _units(sorted(own, key=lambda pod: -pod.priority), snapshot.gangs)
    for (kind, name), pods in units.items():
        goal = _leaving_devices(snapshot, pods, failed, f"{kind} {name}")
        if goal.leaving:
            yield goal


def _leaving_devices(snapshot: Snapshot, pods: Sequence[Pod], failed: dict[DeviceId, str], subject: str) -> RepairGoal:
    claims = {claim.id: claim for claim in snapshot.claims} if failed else {}
    leaving = [pod.id for pod in pods if pod.node_name and any(each in failed for each in _devices(pod, claims))]
    own = {device for pod in pods for device in _devices(pod, claims) if device in failed}
    value = f"{len(leaving)} pod{'s' if len(leaving) != 1 else ''} on failed devices run on others"
    # Successors get none of the failed devices, also none of those that other pods leave.
    return RepairGoal(
        kind=GoalKind.DEVICES,
        subject=subject,
        value=f"{value}: {', '.join(f'{device}: {failed[device]}' for device in sorted(own)[:3])}" if own else value,
        leaving=tuple(leaving),
        devices=tuple(sorted(failed)) if leaving else (),
    )


def _devices(pod: Pod, claims: dict[ClaimId, Claim]) -> Iterator[DeviceId]:
    for key in pod.claim_ids:
        claim = claims.get(key)
        if claim is not None and claim.allocation is not None:
            yield from (result.device for result in claim.allocation.results if not result.admin_access)


def _node_goals(snapshot: Snapshot, policy: Policy, targets: RepairTargets) -> Iterator[RepairGoal]:
    for node in snapshot.nodes:
        why = _goes(node, targets)
        if not why:
            continue
        goal = goal_of_nodes(snapshot, (node.name,), policy, f"node {node.name}")
        if goal.leaving:
            yield replace(goal, value=f"{goal.value}: {why}")


def _goes(node: Node, targets: RepairTargets) -> str:
    taints = (taint for taint in node.taints if taint.key in targets.maintenance_taints)
    taint = next(taints, None)
    if taint is not None:
        return f"it has the taint {taint}"
    return "it is cordoned" if node.is_unschedulable else ""


def _fragmentation_goals(
    snapshot: Snapshot, policy: Policy, targets: RepairTargets, cache: SolverCache
) -> Iterator[RepairGoal]:
    """
    Make room for one more of the largest requests that free devices would serve if they were on one node.

    The fleet's figure has to be above the limit; the largest request is that of the class with the worst figure.
    """
    if targets.most_fragmentation >= 1.0:
        return
    fleet = fleet_of(snapshot, policy, cache)
    totals = totals_of(fleet)
    if totals.fragmentation is None or totals.fragmentation <= targets.most_fragmentation:
        return
    worst = max(totals.classes, key=lambda each: (each.fragmentation or 0.0, each.device_class))
    free = sum(device.is_available and worst.device_class in device.classes for device in fleet.devices)
    counts = [
        size.count
        for size in fleet.sizes
        if size.device_class == worst.device_class and worst.largest.node < size.count <= free
    ]
    if counts:
        yield _room_goal(worst.device_class, max(counts), totals.fragmentation, policy)


def _room_goal(device_class: str, count: int, fragmentation: float, policy: Policy) -> RepairGoal:
    claim = Claim(
        id=ClaimId("", _ROOM),
        uid=_ROOM,
        requests=(Request(name="room", alternatives=(SubRequest(device_class=device_class, count=count),)),),
    )
    names = policy.preemption.scheduler_names
    pod = Pod(
        id=PodId("", _ROOM),
        uid=_ROOM,
        scheduler_name=names[0] if names else "",
        claims=(PodClaim(entry="room", claim=claim.id),),
    )
    return RepairGoal(
        kind=GoalKind.FRAGMENTATION,
        subject=f"{count} devices of class {device_class} on one node",
        value=f"one more request for {count} devices of {device_class} fits; fragmentation is {fragmentation:.0%}",
        wanted=Batch(pods=(pod,)),
        claims=(claim,),
    )
