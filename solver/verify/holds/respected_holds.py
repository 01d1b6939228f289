"""
Held room: pods leave the places of holds free, unless they use up a place of their own or have a higher priority.

Places that stay open count as pods that run: for each priority of a hold, the pods that have to respect it are checked
beside these by the rules about room, ports and devices. Departing pods count there no more: they leave their room to
the places. That the pods of a plan fit beside them as long as they run is checked without the places, as always.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import (
    Allocation,
    Batch,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    SearchReport,
    SearchStatus,
    Seat,
    Snapshot,
    Toleration,
    Violation,
    open_seats,
)
from solver.verify import inter_pod, node_fit, usage
from solver.verify.plan_context import PlanContext, new_allocations
from solver.verify.pools import Pools
from solver.verify.snapshot_index import SnapshotIndex
from solver.verify.usage import Draw, Holders
from solver.verify.violations import Rule, broken

Draws = Callable[[DeviceId], Draw | None]
"""Gives what a device consumed when it was allocated, where that is known."""
_OF_ROOM: Final = frozenset(
    {
        Rule.NODE_RESOURCES,
        Rule.NODE_PODS,
        Rule.NODE_PORTS,
        Rule.DEVICE_TWICE,
        Rule.DEVICE_OVERCOMMITTED,
        Rule.COUNTER_OVERCOMMITTED,
        Rule.DEVICE_INCOMPATIBLE,
    }
)
"""The rules that say of a running pod or of an allocated claim that others cannot have what it has."""


def violations(batch: Batch, plan: Plan, context: PlanContext) -> Iterator[Violation]:
    """
    Check that each place is used up by one pod that it is for, and that the others stay whole.

    The index of the context follows the snapshot again in the end.
    """
    holds = context.snapshot.holds
    if not holds:
        yield from (broken(Rule.HOLD_PLACE, each.pod, "no room is held") for each in plan.placements if each.place)
        return
    seats = {seat.id: seat for seat in open_seats(holds)}
    yield from _places(plan, seats, context)
    used = {each.place for each in plan.placements}
    staying = [seat for key, seat in seats.items() if key not in used]
    for priority in sorted({seat.hold.priority for seat in staying}):
        part = _up_to(plan, priority, context)
        if part.placements:
            yield from _room(batch, part, [seat for seat in staying if seat.hold.priority >= priority], context)
    context.index.follow(context.snapshot)


def _places(plan: Plan, seats: dict[str, Seat], context: PlanContext) -> Iterator[Violation]:
    times = Counter(each.place for each in plan.placements if each.place)
    for placement in plan.placements:
        pod = context.pods.get(placement.pod)
        if not placement.place or pod is None:
            continue
        seat = seats.get(placement.place)
        if seat is None:
            yield broken(Rule.HOLD_PLACE, pod.id, f"place {placement.place} holds nothing")
        elif not seat.place.pods.selects(pod):
            yield broken(Rule.HOLD_PLACE, pod.id, f"place {placement.place} is for other pods")
        elif times[placement.place] > 1:
            yield broken(Rule.HOLD_PLACE, pod.id, f"{times[placement.place]} pods use up place {placement.place}")


def _up_to(plan: Plan, priority: int, context: PlanContext) -> Plan:
    """Return the part of a plan that places pods of at most a priority."""
    placements = tuple(
        each for each in plan.placements if each.pod in context.pods and context.pods[each.pod].priority <= priority
    )
    claims = {claim for each in placements for claim in each.claims}
    allocations = tuple(each for each in plan.allocations if each.claim in claims)
    return replace(plan, placements=placements, allocations=allocations)


def _room(batch: Batch, part: Plan, seats: Sequence[Seat], context: PlanContext) -> Iterator[Violation]:
    """Check a part of a plan beside places, as if their pods ran."""
    then = _occupied(context.snapshot, seats)
    beside = PlanContext.of(then, batch, context.policy, part, context.index)
    found = (
        *node_fit.node_violations(part, beside),
        *inter_pod.port_violations(part, beside),
        *usage.violations(new_allocations(part, beside), beside),
    )
    for violation in found:
        if violation.rule in _OF_ROOM:
            yield broken(Rule.ROOM_HELD, violation.subject, f"beside held room: {violation.message}")


def _occupied(snapshot: Snapshot, seats: Sequence[Seat]) -> Snapshot:
    """Return the cluster with a pod on each of some places in place of departing ones, and a claim with its devices."""
    pods = (replace(_pod(each), node_name=each.place.node) for each in seats)
    claims = (_claim(each) for each in seats if each.place.devices)
    departing = {uid for hold in {seat.hold.key: seat.hold for seat in seats}.values() for uid in hold.departing}
    staying = (pod for pod in snapshot.pods if pod.uid not in departing)
    return replace(snapshot, pods=(*staying, *pods), claims=(*snapshot.claims, *claims))


def _pod(seat: Seat) -> Pod:
    """Return a pod for a place, on no node yet, that tolerates whatever is wrong with the node."""
    return Pod(
        id=PodId("", f"<{seat.id}>"),
        uid=f"<{seat.id}>",
        priority=seat.hold.priority,
        requests=seat.place.requests,
        host_ports=seat.place.host_ports,
        tolerations=(Toleration(operator="Exists"),),
    )


def _claim(seat: Seat) -> Claim:
    name = f"<{seat.id}>"
    results = tuple(
        DeviceResult(request=name, device=each.device, share_id=each.share_id, consumed_capacity=each.consumed_capacity)
        for each in seat.place.devices
    )
    own = ConsumerReference(resource="pods", name=name, uid=name)
    return Claim(id=ClaimId("", name), uid=name, allocation=Allocation(results=results), reserved_for=(own,))


def misfits(snapshot: Snapshot, seats: Sequence[Seat], others: Holders, draws: Draws, pools: Pools) -> Iterator[str]:
    """
    Return why some places cannot all be held: what of their room others have, and which nodes are gone.

    The snapshot has their nodes with all pods that take room there. `others` are the devices that claims have of the
    `pools` of their devices, and `draws` what such a device consumed when it was allocated. A device that is not
    published is no reason: its driver may restart.
    """
    pods = tuple(_pod(seat) for seat in seats)
    placements = tuple(
        Placement(pod=pod.id, pod_uid=pod.uid, node=seat.place.node) for pod, seat in zip(pods, seats, strict=True)
    )
    batch, plan = Batch(pods=pods), Plan(placements=placements, report=SearchReport(status=SearchStatus.FEASIBLE))
    context = PlanContext.of(snapshot, batch, Policy(), plan, SnapshotIndex(pools))
    for violation in (*node_fit.node_violations(plan, context), *inter_pod.port_violations(plan, context)):
        if violation.rule in _OF_ROOM or violation.rule is Rule.NODE_UNKNOWN:
            yield violation.message
    wanted = (_claim(seat) for seat in seats if seat.place.devices)
    allocations = [(each.id, each.allocation) for each in wanted if each.allocation is not None]
    yield from (clash.message for clash in usage.clashes(allocations, others, draws, pools))
