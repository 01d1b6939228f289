"""Totals of a group of devices: states, the largest blocks, fragmentation."""

from collections import Counter
from collections.abc import Iterable, Sequence

from solver.domain.fleet import DeviceState, FleetDevice, FleetSupply, RequestSize
from solver.fleet import blocks
from solver.fleet.fragmentation import causes, fragmentation


def supply_of(devices: Iterable[FleetDevice], sizes: Sequence[RequestSize] = ()) -> FleetSupply:
    """Return the totals of some devices; `sizes` are the requests of their class, without which there is no number."""
    every = tuple(devices)
    states = Counter(device.state for device in every)
    available = tuple(device for device in every if device.is_available)
    rooms = blocks.on_nodes(available)
    return FleetSupply(
        total=len(every),
        held=states[DeviceState.HELD],
        available=len(available),
        shared=states[DeviceState.SHARED],
        blocked=states[DeviceState.BLOCKED],
        unusable=states[DeviceState.UNUSABLE],
        tainted=sum(1 for device in every if device.problems and device.is_tainted),
        largest=blocks.largest(available, rooms),
        fragmentation=fragmentation(rooms, sizes),
        causes=causes(every, rooms, sizes),
    )
