"""
The numbers of a fleet for its series, with bounded labels.

Groups of nodes and namespaces come from users: the ones with most devices are named, all others count as `OTHER`.
No namespace is counted unless that is wanted.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, TypeVar

from solver.domain.fleet import (
    ClassBlocks,
    DeviceCount,
    DeviceState,
    Fleet,
    FleetDevice,
    FleetTotals,
    NamespaceDeviceCount,
    NodeDeviceCount,
)
from solver.fleet.fragmentation import fleet_fragmentation
from solver.fleet.supply import supply_of

OTHER: Final = "other"
_MOST_GROUPS: Final = 50
_MOST_CLASSES: Final = 50
"""The most classes with blocks and fragmentation: those with most requests."""

_Key = TypeVar("_Key", bound=tuple[str, ...])


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
    blocks = _blocks(fleet, members)
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
        classes=blocks,
        fragmentation=fleet_fragmentation(fleet, [(each.device_class, each.fragmentation) for each in blocks]),
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
