"""Room that comes free and is held: places that have all of it, so that pods which they are not for gain nothing."""

from collections import Counter
from collections.abc import Collection, Iterator

from scheduler.change import Kind, Transition
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import holds_node
from solver import running_place
from solver.domain import Claim, DeviceId, Pod, Seat

_PODS = "pods"


def ends_of(seat: Seat) -> Iterator[Transition]:
    """Return a place that holds nothing any more as a pod and a claim that are gone."""
    place = running_place(seat)
    for kind, value in ((Kind.CLAIMS, place.claim), (Kind.PODS, place.pod)):
        if value is not None:
            yield Transition(kind=kind, key=str(value.id), before=value, after=None)


def heirs(store: ObjectStore, holds: HoldCache, transition: Transition) -> tuple[Seat, ...]:
    """
    Return the open places that have all of what a transition gives back; none where others may gain by it.

    Others gain nothing of devices that are held. Of a node they gain nothing where departing pods used no more than
    what is held there (`solver.held_room`).
    """
    before, after = transition.before, transition.after
    if not len(holds):
        return ()
    if isinstance(before, Claim) and isinstance(after, Claim | None):
        return _heirs_of_devices(holds, before, after)
    if isinstance(before, Pod) and isinstance(after, Pod | None) and holds_node(before):
        is_gone = after is None or not holds_node(after)
        return _heirs_of_room(store, holds.seats_on(before.node_name), before) if is_gone else ()
    return ()


def _heirs_of_devices(holds: HoldCache, before: Claim, after: Claim | None) -> tuple[Seat, ...]:
    had, has = _devices(before), _devices(after)
    if had is None or has is None or not had - has or has - had:
        return ()
    freed = had - has
    found: dict[str, Seat] = {}
    kept = set[DeviceId]()
    for seat in holds.seats_with(freed):
        own = {each.device for each in seat.place.devices if not each.share_id} & freed
        if own:
            found[seat.id] = seat
            kept |= own
    return tuple(found.values()) if kept == freed else ()


def _devices(claim: Claim | None) -> frozenset[DeviceId] | None:
    """Return the devices that a claim has alone; None where it has shares: what they leave is not followed."""
    results = claim.allocation.results if claim is not None and claim.allocation is not None else ()
    if any(each.share_id for each in results):
        return None
    return frozenset(each.device for each in results if not each.admin_access)


def _heirs_of_room(store: ObjectStore, seats: Collection[Seat], gone: Pod) -> tuple[Seat, ...]:
    holds = {seat.hold.key: seat.hold for seat in seats}
    departing = {uid for hold in holds.values() for uid in hold.departing}
    node, there = store.nodes.get(gone.node_name), store.pod_index.on(gone.node_name).values()
    if gone.uid not in departing or node is None:
        return ()
    used, held = Counter(dict(gone.requests)), Counter[str]()
    for pod in there:
        if pod.uid in departing:
            used.update(dict(pod.requests))
    for seat in seats:
        held.update(dict(seat.place.requests))
    # A place counts as a pod beside those that leave their room to it.
    has_spare_slots = len(there) + 1 + len(seats) <= dict(node.allocatable).get(_PODS, 0)
    is_held = has_spare_slots and all(held[name] >= amount for name, amount in used.items())
    return tuple(seats) if is_held else ()
