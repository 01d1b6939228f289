"""The RepairPlans of the map: which pods leave which nodes, and who has which devices once all is done."""

from collections.abc import Iterator

import msgspec

from scheduler.kube.errors import DecodeError
from scheduler.kube.repair_plans import MoveState, RepairPlan
from scheduler.visibility import VisibleNamespaces


class Arrival(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """
    A pod, or the successor of one, on its node with its devices (`driver/pool/name`) after a plan.

    `source` is the node that a pod that moves leaves, empty for one that waits; `node` is empty where the successor
    waits for room.
    """

    namespace: str
    name: str
    source: str = msgspec.field(name="from", default="")
    node: str = ""
    devices: tuple[str, ...] = ()


class PlanPicture(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A RepairPlan that is not over: its moves that are not made yet, then the pods that they are for."""

    name: str
    goal: str
    state: str
    arrivals: tuple[Arrival, ...]


def of_plan(plan: RepairPlan) -> PlanPicture | None:
    """Draw a plan; None for one that is over, or cannot be read."""
    if not plan.is_open:
        return None
    try:
        arrivals = tuple(_arrivals(plan))
    except DecodeError:
        return None
    return PlanPicture(name=plan.name, goal=plan.spec.goal.subject, state=plan.status.state, arrivals=arrivals)


def seen_by(
    pictures: tuple[PlanPicture, ...], claims: VisibleNamespaces, pods: VisibleNamespaces
) -> tuple[PlanPicture, ...]:
    """Return the plans of whose pods a caller may see all, and their claims."""
    return tuple(
        each for each in pictures if all(pod.namespace in claims and pod.namespace in pods for pod in each.arrivals)
    )


def _arrivals(plan: RepairPlan) -> Iterator[Arrival]:
    for move in plan.spec.moves:
        progress = plan.progress(move.uid)
        if progress is None or progress.state is MoveState.EVICTING:
            yield Arrival(
                namespace=move.namespace, name=move.name, source=move.source, node=move.target, devices=move.devices
            )
    found = plan.solved().found
    given = {each.claim: each.allocation.results for each in found.allocations}
    moved = {move.uid for move in plan.spec.moves}
    for placement in found.placements:
        if placement.pod_uid not in moved:
            devices = tuple(str(result.device) for claim in placement.claims for result in given.get(claim, ()))
            pod = placement.pod
            yield Arrival(namespace=pod.namespace, name=pod.name, node=placement.node, devices=devices)
