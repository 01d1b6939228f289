"""
Held room beside everything else: whether a hold can be made, which places are lost, and what a unit would take of them.

One rule for all three, the checker's (`solver.verify.misfits`): the places are compared with pods, claims and places of
other holds on their nodes and with their devices (`DevicePart`). What a pod that a place is for has allocated already
is the place's own.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from scheduler.cluster.devices import DevicePart
from scheduler.cluster.holds.hold_cache import HoldCache
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import holds_node
from scheduler.cluster.unit import Unit
from solver.domain import ClaimId, DeviceHold, DeviceId, DeviceResult, Pod, PoolId, Seat, Snapshot, open_seats
from solver.verify import misfits

_Counts = Callable[[Pod | None], bool]
"""Whether a pod, with its claims, counts beside places; None stands for claims that no known pod uses."""
_AT_ONCE: Final = 50
"""So many places, or a few more, are compared at a time."""


def objections(store: ObjectStore, holds: HoldCache, hold: DeviceHold) -> Iterator[tuple[str, ...]]:
    """
    Return why the room of a hold that is being made, or is to be, cannot be held; some of its places at a time.

    Places of one node or with one device come together, others some dozen at a time. Between them the caller may
    pause: what is in the cache by then keeps others from the room. Pods and claims count as assumed, except those that
    will leave the room. So do nominated pods, except those of a lower priority than the hold. Of holds that are being
    made, those count that were made before this one: of two that overlap, the first one gets the room.
    """
    for own in _related(store, open_seats((hold,))):
        nodes = dict.fromkeys(seat.place.node for seat in own)
        near = _seats_near(holds, nodes, store.slice_index.parts_of(_devices(own)))
        later = holds.made_after(hold.name)
        beside = {seat.id: seat for seat in near.values() if seat.hold.key != hold.key and seat.hold.name not in later}
        waiting = [
            pod for name in nodes for pod in store.nominated_to.get(name, {}).values() if pod.priority >= hold.priority
        ]
        leaving = {*hold.departing, *_leaving(beside.values())}
        stays = partial(_stays, leaving)
        yield tuple(dict.fromkeys(_misfits(store, (*beside.values(), *own), stays, waiting)))


def _related(store: ObjectStore, seats: Sequence[Seat]) -> Iterator[list[Seat]]:
    """Divide places so that those of one node or with one device are together, and otherwise into few."""
    by_part = defaultdict[object, list[int]](list)
    parts_of = [(seat.place.node, *store.slice_index.parts_of(_devices((seat,)))) for seat in seats]
    for index, parts in enumerate(parts_of):
        for part in parts:
            by_part[part].append(index)
    seen, found = set[int](), list[Seat]()
    for first in range(len(seats)):
        reached = [] if first in seen else [first]
        seen.update(reached)
        while reached:
            index = reached.pop()
            found.append(seats[index])
            near = (each for part in parts_of[index] for each in by_part.pop(part, ()))
            fresh = [each for each in dict.fromkeys(near) if each not in seen]
            seen.update(fresh)
            reached += fresh
        if len(found) >= _AT_ONCE:
            yield found
            found = []
    if found:
        yield found


def lost_seats(
    store: ObjectStore, holds: HoldCache, nodes: Iterable[str], parts: Iterable[DevicePart]
) -> Iterator[tuple[Seat, str]]:
    """
    Return the open places, on some nodes or with some devices, that others have now; with the reason of each.

    Only pods that the watch shows on their nodes count, and their claims: what is assumed may still be rolled back.
    Pods that leave their room to a hold do not count. Of several places that do not all fit, those of the highest
    priority stay, and of equals those of the first names. Places of a hold that cannot be read completely are never
    given up: they may stand for more than they need.
    """
    readable = [seat for seat in _seats_near(holds, nodes, parts).values() if not seat.hold.invalid]
    for related in _related(store, readable):
        # Pods may leave their room to places that are not looked at, and are on these nodes until then.
        near = _seats_near(holds, (seat.place.node for seat in related), store.slice_index.parts_of(_devices(related)))
        yield from _lost_of(store, related, _leaving(near.values()))


def _lost_of(store: ObjectStore, seats: Sequence[Seat], leaving: Collection[str]) -> Iterator[tuple[Seat, str]]:
    ranked = sorted(seats, key=lambda seat: (-seat.hold.priority, seat.hold.name, seat.place.index))

    def is_seen(pod: Pod | None) -> bool:
        observed = store.pods.get(pod.id) if pod is not None else None
        return observed is not None and holds_node(observed) and _stays(leaving, observed)

    yield from _given_up(store, [], ranked, is_seen)


def _given_up(
    store: ObjectStore, staying: list[Seat], seats: Sequence[Seat], counts: _Counts
) -> Iterator[tuple[Seat, str]]:
    """
    Add those places to the ones that stay that fit beside them, in their order, and return the others.

    Places that do not all fit are halved: what is lost of many in a large pool costs a comparison for each halving.
    """
    message = next(_misfits(store, (*staying, *seats), counts), None) if seats else None
    if message is None:
        staying.extend(seats)
    elif len(seats) == 1:
        yield seats[0], message
    else:
        middle = len(seats) // 2
        yield from _given_up(store, staying, seats[:middle], counts)
        yield from _given_up(store, staying, seats[middle:], counts)


def unit_conflicts(store: ObjectStore, holds: HoldCache, unit: Unit) -> tuple[str, ...]:
    """
    Return what of held room a unit takes that no hold had when it was decided.

    Pods of a higher priority than a hold may take its room, and each pod its own place. What departing pods have is for
    the places. What places cannot have in any case is no fault of the unit.
    """
    if not len(holds):
        return ()
    used, own = {each.place for each in unit.placements}, {each.pod for each in unit.placements}
    pods = [pod for key in own if (pod := store.assumed_pods.get(key)) is not None]
    lowest = min((pod.priority for pod in pods), default=0)
    devices = (result.device for each in unit.allocations for result in each.allocation.results)
    nodes = (each.node for each in unit.placements)
    near = _seats_near(holds, nodes, store.slice_index.parts_of(devices))
    seats = [seat for key, seat in near.items() if key not in used and seat.hold.priority >= lowest]
    leaving = _leaving(seats)
    found = list(_misfits(store, seats, partial(_stays, leaving))) if seats else []
    if not found:
        return ()
    anyway = set(_misfits(store, seats, lambda pod: _stays(leaving, pod) and (pod is None or pod.id not in own)))
    return tuple(f"room is held for other pods: {each}" for each in dict.fromkeys(found) if each not in anyway)


def _leaving(seats: Iterable[Seat]) -> set[str]:
    """Return the uids of the pods that leave their room to the holds of some places."""
    return {uid for hold in {seat.hold.key: seat.hold for seat in seats}.values() for uid in hold.departing}


def _stays(leaving: Collection[str], pod: Pod | None) -> bool:
    """Whether a pod is none of those that leave their room to a hold; claims that no known pod uses stay."""
    return pod is None or pod.uid not in leaving


def _seats_near(holds: HoldCache, nodes: Iterable[str], parts: Iterable[DevicePart]) -> dict[str, Seat]:
    """Return by `Seat.id` the open places on some nodes or with some devices."""
    found = {seat.id: seat for name in nodes for seat in holds.seats_on(name)}
    found |= {seat.id: seat for seat in holds.seats_with(parts)}
    return found


def _devices(seats: Iterable[Seat]) -> Iterator[DeviceId]:
    return (each.device for seat in seats for each in seat.place.devices)


def _misfits(store: ObjectStore, seats: Sequence[Seat], counts: _Counts, waiting: Sequence[Pod] = ()) -> Iterator[str]:
    """Compare places with the pods and claims that count, and with pods that wait for their nodes."""
    names = dict.fromkeys(seat.place.node for seat in seats)
    running = (pod for name in names for pod in store.pod_index.on(name).values() if counts(pod))
    snapshot = Snapshot(
        nodes=tuple(node for name in names if (node := store.nodes.get(name)) is not None), pods=(*running, *waiting)
    )
    wanting = defaultdict[DeviceId, list[Seat]](list)
    for seat in seats:
        for each in seat.place.devices:
            wanting[each.device].append(seat)
    held: dict[DeviceId, dict[ClaimId, Sequence[DeviceResult]]] = {}
    for device in _related_devices(store, wanting):
        for claim, results in store.allocated_devices.holders(device).items():
            if _is_taken(store, claim, wanting.get(device, ()), counts):
                held.setdefault(device, {})[claim] = results
    pools = store.slice_index.checked(dict.fromkeys(device.pool_id for device in wanting))
    yield from misfits(snapshot, seats, held, store.allocated_devices.draws, pools)


def _related_devices(store: ObjectStore, devices: Iterable[DeviceId]) -> Iterator[DeviceId]:
    """Return devices, with the allocated ones that draw on the same counters, each once."""
    for part in store.slice_index.parts_of(devices):
        if isinstance(part, PoolId):
            yield from store.allocated_devices.in_pool(part)
        else:
            yield part


def _is_taken(store: ObjectStore, claim: ClaimId, seats: Collection[Seat], counts: _Counts) -> bool:
    """Whether a claim has its devices beside places: not one of pods to come that such a place is for."""
    pods = [pod for key in store.pods_by_claim.get(claim, ()) if (pod := store.assumed_pods.get(key)) is not None]
    if any(not pod.node_name and seat.place.pods.selects(pod) for pod in pods for seat in seats):
        return False
    return any(map(counts, pods or (None,)))
