"""Whether a unit may still be written: its placements and allocations against the mirror as it is now."""

from collections.abc import Iterator

from scheduler.cluster import check_claims, check_neighbours, check_nodes, check_volumes
from scheduler.cluster.contention import duplicates
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.storage import Storage
from scheduler.cluster.unit import Unit
from solver.domain import Placement, Reason, ReasonCode, wording


def objections(mirror: Mirror, storage: Storage, unit: Unit) -> tuple[Reason, ...]:
    """
    Give everything that speaks against writing the unit, each once.

    All but a gang's missing members have the code `Conflict`: the plan was right when it was made, so its pods are to
    be decided again and not to wait for the one thing that changed.
    """
    messages = dict.fromkeys(_messages(mirror, storage, unit))
    conflicts = (Reason(code=ReasonCode.CONFLICT, message=message) for message in messages)
    return (*conflicts, *about_gangs(mirror, unit))


def _messages(mirror: Mirror, storage: Storage, unit: Unit) -> Iterator[str]:
    for placement in unit.placements:
        yield from _about_pod(mirror, placement)
        yield from check_nodes.about_node(mirror, placement)
        yield from storage.objections(placement)
    yield from check_nodes.about_room(mirror, unit)
    yield from check_neighbours.about_neighbours(mirror, unit)
    yield from check_volumes.about_exclusive(mirror, storage, unit)
    yield from check_claims.about_reservations(mirror, unit)
    yield from check_claims.about_allocations(mirror, unit)
    yield from (each.message for each in duplicates(mirror, unit))


def about_gangs(mirror: Mirror, unit: Unit) -> tuple[Reason, ...]:
    """Whether enough of each gang would run: members that are to be placed here, or by another unit, may be gone."""
    messages = dict.fromkeys(_about_gangs(mirror, unit))
    return tuple(Reason(code=ReasonCode.GANG_INCOMPLETE, message=each) for each in messages)


def _about_gangs(mirror: Mirror, unit: Unit) -> Iterator[str]:
    own = {placement.pod for placement in unit.placements}
    left = {placement.pod for placement in unit.placements if not any(_about_pod(mirror, placement))}
    for planned in unit.gangs:
        gang = mirror.gangs.gang(planned.id)
        if gang.invalid:
            yield gang.invalid
        roster = mirror.gangs.roster(planned.id)
        mine = [pod for key in own if (pod := roster.members.get(key)) is not None]
        others = roster.running - sum(bool(pod.node_name) and not pod.is_deleting for pod in mine)
        arriving = sum(pod.id in left for pod in mine)
        if others + arriving < gang.min_count:
            message = f"{others} of its pods run and {arriving} more are planned"
            yield f"gang {planned.id.name} would be partial: {message}, {gang.min_count} have to run together"


def _about_pod(mirror: Mirror, placement: Placement) -> Iterator[str]:
    """Look at the pod as the watch gave it: the unit's own assumption would call it bound."""
    pod = mirror.pods.get(placement.pod)
    if pod is None:
        yield f"pod {placement.pod} was deleted"
    elif pod.uid != placement.pod_uid:
        yield f"pod {placement.pod} was deleted, and another one has its name"
    elif pod.node_name:
        yield f"pod {placement.pod} was bound to node {pod.node_name} by somebody else"
    elif pod.is_terminal or pod.is_deleting:
        yield f"pod {placement.pod} {'ended' if pod.is_terminal else 'is being deleted'}"
    elif pod.scheduling_gates:
        yield f"pod {placement.pod} has the scheduling gate {pod.scheduling_gates[0]}"
    elif pod.invalid:
        yield f"pod {placement.pod} can no longer be read: {wording.quoted(pod.invalid)}"
