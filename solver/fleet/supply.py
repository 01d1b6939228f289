"""
Totals of devices: of some of them, of groups of them, and of a whole fleet for its series.

Labels of series are bounded. Groups of nodes and namespaces come from users: the ones with most devices are named, all
others count as `OTHER`. No namespace is counted unless that is wanted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from solver.domain.fleet import (
    ClassBlocks,
    DeviceCount,
    DeviceState,
    Fleet,
    FleetDevice,
    FleetSupply,
    FleetTotals,
    FragmentingPod,
    GroupedSupply,
    Grouping,
    NamespaceDeviceCount,
    NodeDeviceCount,
    RequestSize,
    SupplyRow,
)
from solver.fleet import blocks
from solver.fleet.fragmentation import causes, fleet_fragmentation, fragmentation

OTHER: Final = "other"
_MOST_GROUPS: Final = 50
_MOST_CLASSES: Final = 50
"""The most classes with blocks and fragmentation: those with most requests."""
_MOST_CAUSES: Final = 5
"""The most pods that are named as causes of the fragmentation of several groups."""

_VALUES: Final[dict[Grouping, Callable[[FleetDevice], Iterable[str]]]] = {
    Grouping.CLASS: lambda device: device.classes or ("",),
    Grouping.TYPE: lambda device: (device.kind,),
    Grouping.GROUP: lambda device: (device.node_group,),
    Grouping.DOMAIN: lambda device: (device.domain,),
    Grouping.ROOT: lambda device: (device.root,),
    Grouping.NODE: lambda device: (device.node,),
    Grouping.NAMESPACE: lambda device: dict.fromkeys(
        each.claim.namespace for each in device.holders if not each.admin_access
    ),
}
_Key = TypeVar("_Key", bound=tuple[str, ...])


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


def grouped_supply(fleet: Fleet, devices: Sequence[FleetDevice], by: Sequence[Grouping]) -> GroupedSupply:
    """Group devices of a fleet; one that matches several classes counts in each of them."""
    classes = sorted({each.device_class for each in fleet.sizes})
    sizes = {name: [each for each in fleet.sizes if each.device_class == name] for name in classes}
    groups: defaultdict[tuple[str, ...], list[FleetDevice]] = defaultdict(list)
    for device in devices:
        for values in _values(device, by):
            groups[values].append(device)
    at = by.index(Grouping.CLASS) if Grouping.CLASS in by and Grouping.NAMESPACE not in by else -1
    rows = tuple(
        SupplyRow(values, supply_of(members, sizes.get(values[at], ()) if at >= 0 else ()))
        for values, members in sorted(groups.items(), key=lambda group: _place(group[0], group[1], at))
    )
    number, causes = _fragmentation(fleet, devices, sizes)
    is_part = len(devices) < len(fleet.devices)
    return GroupedSupply(by=tuple(by), rows=rows, fragmentation=number, causes=causes, is_part=is_part)


def _place(values: tuple[str, ...], members: Sequence[FleetDevice], at: int) -> tuple[bool, bool, tuple[str, ...]]:
    """Return where a group stands in a list: network cards after other devices, and devices without a class last."""
    return all(each.is_network for each in members), at >= 0 and not values[at], values


def _fragmentation(
    fleet: Fleet, devices: Sequence[FleetDevice], sizes: Mapping[str, Sequence[RequestSize]]
) -> tuple[float | None, tuple[FragmentingPod, ...]]:
    """Return the fragmentation of the nodes of some devices, and its causes among the holders of these."""
    nodes, pods = {each.node for each in devices}, {pod for each in devices for one in each.holders for pod in one.pods}
    there = [each for each in fleet.devices if each.node in nodes]
    of_class = {name: supply_of((d for d in there if name in d.classes), each) for name, each in sizes.items()}
    number = fleet_fragmentation(fleet, [(name, each.fragmentation) for name, each in of_class.items()])
    worst = {each for supply in of_class.values() for each in supply.causes if each.pod in pods}
    causes = sorted(worst, key=lambda each: (-each.stranded / each.held, each.pod, each.node))
    return number, tuple(causes[:_MOST_CAUSES])


def _values(device: FleetDevice, by: Sequence[Grouping]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for each in by:
        found = [(*before, value) for before in found for value in _VALUES[each](device)]
    return found


def totals_of(fleet: Fleet, *, per_node: bool = False, most_namespaces: int = 0) -> FleetTotals:
    """Count a fleet; a device that matches several classes counts in each of them."""
    devices: Counter[tuple[str, str, str, DeviceState]] = Counter()
    nodes: Counter[tuple[str, str, DeviceState]] = Counter()
    namespaces: Counter[tuple[str, str]] = Counter()
    members: defaultdict[str, list[FleetDevice]] = defaultdict(list)
    for device in fleet.devices:
        holding = {each.claim.namespace for each in device.holders if not each.admin_access}
        for name in device.classes or ("",):
            devices[device.node_group, name, device.id.driver, device.state] += 1
            members[name].append(device)
            if most_namespaces:
                namespaces.update((namespace, name) for namespace in holding)
            if per_node and device.node:
                nodes[device.node, name, device.state] += 1
    classes = _blocks(fleet, members)
    return FleetTotals(
        devices=tuple(
            DeviceCount(driver=driver, device_class=name, node_group=group, state=state, count=count)
            for (group, name, driver, state), count in sorted(_bounded(devices, _MOST_GROUPS).items())
        ),
        namespaces=tuple(
            NamespaceDeviceCount(namespace=namespace, device_class=name, count=count)
            for (namespace, name), count in sorted(_bounded(namespaces, most_namespaces).items())
        ),
        nodes=tuple(
            NodeDeviceCount(node=node, device_class=name, state=state, count=count)
            for (node, name, state), count in sorted(nodes.items())
        ),
        classes=classes,
        fragmentation=fleet_fragmentation(fleet, [(each.device_class, each.fragmentation) for each in classes]),
    )


def _bounded(counts: Mapping[_Key, int], most: int) -> Counter[_Key]:
    """Keep the first parts of keys with the largest counts, and put all others together."""
    sums: Counter[str] = Counter()
    for key, count in counts.items():
        sums[key[0]] += count
    named = {first for first, _ in sums.most_common(most)}
    found: Counter[_Key] = Counter()
    for key, count in counts.items():
        found[key if key[0] in named else (OTHER, *key[1:])] += count  # type: ignore[index]  # the same type of tuple
    return found


def _blocks(fleet: Fleet, members: Mapping[str, list[FleetDevice]]) -> tuple[ClassBlocks, ...]:
    requests: Counter[str] = Counter({name: 0 for name in sorted(members) if name})
    for each in fleet.sizes:
        if each.device_class in members:
            requests[each.device_class] += each.requests
    found: list[ClassBlocks] = []
    for name, _ in requests.most_common(_MOST_CLASSES):
        supply = supply_of(members[name], [each for each in fleet.sizes if each.device_class == name])
        found.append(ClassBlocks(device_class=name, largest=supply.largest, fragmentation=supply.fragmentation))
    return tuple(found)
