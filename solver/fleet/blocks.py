"""
The largest blocks of devices that may be taken at once, and what a request of the typical mix cannot use.

Devices of one pool that draw on shared counters may overlap: a whole GPU and its partitions. Of those a greedy choice
counts, the device that takes the smallest part of its counters first. It is never too large; it is too small only where
a device that takes more of one counter would leave room for more others.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from solver.domain.fleet import DeviceState, FleetDevice, LargestBlock
from solver.feasibility.claims import MAX_RESULTS

Rooms = Mapping[str, int]
"""By place the number of available devices that may be taken at once."""
_Place = Callable[[FleetDevice], str]


def on_nodes(available: Iterable[FleetDevice]) -> Rooms:
    """Return the rooms of single nodes, without devices that several nodes can use."""
    return _rooms(available, lambda device: device.node)


def largest(available: tuple[FleetDevice, ...], rooms: Rooms) -> LargestBlock:
    """Return the largest blocks of available devices; `rooms` are those of `on_nodes`."""
    wide = [device for device in available if device.nodes is None or len(device.nodes) > 1]
    on_node = _with_wide(rooms, wide) if wide else max(rooms.values(), default=0)
    return LargestBlock(
        claim=min(on_node, MAX_RESULTS),
        node=on_node,
        root=max(_rooms(available, _root).values(), default=None),
        domain=max(_rooms(available, lambda device: device.domain).values(), default=None),
    )


def room(devices: Iterable[FleetDevice]) -> int:
    """Count the devices that may be taken at once."""
    count, left = 0, dict[tuple[str, str, str, str], int]()
    for device in sorted(devices, key=_share):
        keys = [(device.id.driver, device.id.pool, each.counter_set, each.counter) for each in device.counters]
        # A device with shares draws on its counters already; admin access draws on nothing.
        takes = [0 if device.state is DeviceState.SHARED else each.takes for each in device.counters]
        before = [left.get(key, each.left) for key, each in zip(keys, device.counters, strict=True)]
        if all(amount <= there for amount, there in zip(takes, before, strict=True)):
            left.update((key, there - amount) for key, there, amount in zip(keys, before, takes, strict=True))
            count += 1
    return count


def _share(device: FleetDevice) -> tuple[float, str]:
    """Return the largest part that a device takes of one of its counters, and its name."""
    parts = (each.takes / each.total for each in device.counters if each.total)
    return max(parts, default=0.0), device.id.device


def _rooms(available: Iterable[FleetDevice], place: _Place) -> Rooms:
    """Return the room of each place; devices without counters need no choice."""
    plain: Counter[str] = Counter()
    overlapping: defaultdict[str, list[FleetDevice]] = defaultdict(list)
    for device in available:
        where = place(device)
        if where and device.counters:
            overlapping[where].append(device)
        elif where:
            plain[where] += 1
    for where, devices in overlapping.items():
        plain[where] += room(devices)
    return plain


def _with_wide(rooms: Rooms, wide: Iterable[FleetDevice]) -> int:
    """Return the most devices that one node can use, with those that several nodes can use."""
    reaches: defaultdict[tuple[str, ...] | None, list[FleetDevice]] = defaultdict(list)
    for device in wide:
        reaches[device.open_nodes].append(device)
    everywhere, total = room(reaches.pop(None, ())), Counter(rooms)
    for nodes, devices in reaches.items():
        reached = room(devices)
        total.update(dict.fromkeys(nodes or (), reached))
    return max(total.values(), default=0) + everywhere


_SEPARATOR: Final = "\0"


def _root(device: FleetDevice) -> str:
    """Return a root with its node: roots of two nodes may have one name."""
    return f"{device.node}{_SEPARATOR}{device.root}" if device.root and device.node else ""
