"""
Fragmentation: the part of the available devices that a typical claim cannot use, as their node has too few left.

The definition is that of FGD (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC '23), for whole devices of one DeviceClass:

    F(n, m)  = r(n) if r(n) < k(m), else 0
    F        = Σ_n Σ_m p(m) · F(n, m)  /  Σ_n r(n)

r(n) are the available devices of node n that may be taken at once, k(m) is how many devices a request of kind m asks
for, and p(m) is its part of all requests of claims that exist, allocated or not (the typical mix; the paper takes it
from a trace). 0: every request of the mix can use every node's devices. 1: no request can use any. CPU and memory,
selectors of requests and constraints do not count. Devices that several nodes can use are left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from solver.domain import PodId
from solver.domain.fleet import DeviceState, Fleet, FleetDevice, FragmentingPod, RequestSize
from solver.fleet.blocks import Rooms

_MOST_CAUSES: Final = 10


def fragmentation(rooms: Rooms, sizes: Sequence[RequestSize]) -> float | None:
    """Return F for a class's rooms and requests; None without requests or available devices."""
    total, parts = sum(rooms.values()), _unusable_parts(rooms, sizes)
    return sum(room * parts[room] for room in rooms.values()) / total if total and sizes else None


def _unusable_parts(rooms: Rooms, sizes: Sequence[RequestSize]) -> dict[int, float]:
    """Return, by room, the part of the requests that need more than that."""
    requests = sum(each.requests for each in sizes)
    return {
        room: sum(each.requests for each in sizes if each.count > room) / requests if requests else 0.0
        for room in set(rooms.values())
    }


def causes(devices: Iterable[FleetDevice], rooms: Rooms, sizes: Sequence[RequestSize]) -> tuple[FragmentingPod, ...]:
    """
    Return the pods that hold devices of a class beside devices that count as fragments.

    First come the pods with the most expected fragments on their node for each device that they hold.
    """
    parts = _unusable_parts(rooms, sizes)
    stranded = {node: room * parts[room] for node, room in rooms.items() if room * parts[room]}
    held: Counter[tuple[PodId, str]] = Counter()
    wholes: Counter[str] = Counter()
    for device in devices if stranded else ():
        if device.node in stranded:
            pods = {pod for each in device.holders if not each.admin_access for pod in each.pods}
            held.update((pod, device.node) for pod in pods)
            wholes[device.node] += device.state is not DeviceState.UNUSABLE
    users = Counter(node for _, node in held)
    kept_out = {
        node: max((each.count for each in sizes if rooms[node] < each.count <= whole), default=0)
        for node, whole in wholes.items()
    }
    found = [
        FragmentingPod(
            pod=pod,
            node=node,
            held=count,
            stranded=stranded[node],
            device_class=sizes[0].device_class,
            size=kept_out[node],
            pods=users[node],
        )
        for (pod, node), count in held.items()
    ]
    found.sort(key=lambda each: (-each.stranded / each.held, each.pod, each.node))
    return tuple(found[:_MOST_CAUSES])


def fleet_fragmentation(fleet: Fleet, by_class: Iterable[tuple[str, float | None]]) -> float | None:
    """Return one number for a fleet: the mean of the classes' fragmentation, weighted by their requests."""
    weights: Counter[str] = Counter()
    for each in fleet.sizes:
        weights[each.device_class] += each.requests
    known = [(value, weights[name]) for name, value in by_class if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
