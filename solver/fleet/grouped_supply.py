"""Totals of a fleet by what its devices have in common: class, type, node group, domain, root, node, namespace."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from solver.domain.fleet import Fleet, FleetDevice, FragmentingPod, GroupedSupply, Grouping, RequestSize, SupplyRow
from solver.fleet.fragmentation import fleet_fragmentation
from solver.fleet.supply import supply_of

_MOST_CAUSES: Final = 5

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


def grouped_supply(fleet: Fleet, devices: Sequence[FleetDevice], by: Sequence[Grouping]) -> GroupedSupply:
    """Group devices of a fleet; one that matches several classes counts in each of them."""
    sizes = {name: [each for each in fleet.sizes if each.device_class == name] for name in _classes(fleet)}
    groups: defaultdict[tuple[str, ...], list[FleetDevice]] = defaultdict(list)
    for device in devices:
        for values in _values(device, by):
            groups[values].append(device)
    at = by.index(Grouping.CLASS) if Grouping.CLASS in by and Grouping.NAMESPACE not in by else -1
    rows = tuple(
        SupplyRow(values, supply_of(members, sizes.get(values[at], ()) if at >= 0 else ()))
        for values, members in sorted(groups.items())
    )
    number, causes = _fragmentation(fleet, devices, sizes)
    is_part = len(devices) < len(fleet.devices)
    return GroupedSupply(by=tuple(by), rows=rows, fragmentation=number, causes=causes, is_part=is_part)


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


def _classes(fleet: Fleet) -> list[str]:
    return sorted({each.device_class for each in fleet.sizes})


def _values(device: FleetDevice, by: Sequence[Grouping]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for each in by:
        found = [(*before, value) for before in found for value in _VALUES[each](device)]
    return found
