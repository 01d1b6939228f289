"""How much of a fleet is in use, and how much of it is free in one piece."""

from collections import defaultdict

import msgspec

from scheduler.counterfactual.outcomes import RecordedCount
from solver import SolverCache, fleet_of
from solver.domain import Policy, Snapshot
from solver.domain.fleet import DeviceState

_IN_USE = frozenset({DeviceState.HELD, DeviceState.SHARED})


class FleetMeasure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    Devices that claims hold, whole or in shares, devices that are free, and whole free nodes.

    A whole free node has a free device, and no device of it is held, shared, or blocked by a partition in use.
    """

    devices_in_use: RecordedCount = 0
    devices_free: RecordedCount = 0
    whole_free_nodes: RecordedCount = 0


def measured(snapshot: Snapshot, policy: Policy, cache: SolverCache) -> FleetMeasure:
    """Measure the fleet of a snapshot; devices that several nodes can use belong to no node."""
    in_use = free = 0
    states: defaultdict[str, set[DeviceState]] = defaultdict(set)
    for device in fleet_of(snapshot, policy, cache).devices:
        in_use += device.state in _IN_USE
        free += device.state is DeviceState.FREE
        if device.node:
            states[device.node].add(device.state)
    touched = {*_IN_USE, DeviceState.BLOCKED}
    whole = sum(DeviceState.FREE in found and touched.isdisjoint(found) for found in states.values())
    return FleetMeasure(devices_in_use=in_use, devices_free=free, whole_free_nodes=whole)
