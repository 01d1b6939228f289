"""Prints what is free, by class, type and group of nodes: as a list, or as JSON or YAML (docs/devices.md)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TextIO

from scheduler.observe import terminal
from scheduler.simulation import devices_output, list_table
from scheduler.simulation.list_table import Coloured, ListColumn
from solver import fleet_fragmentation, supply_of
from solver.domain.fleet import Fleet, FleetDevice, FleetSupply, FragmentingPod

Json = dict[str, Any]

_SHOWN_CAUSES: Final = 5


class Grouping(StrEnum):
    """What devices are grouped by, for `--by`."""

    CLASS = "class"
    TYPE = "type"
    GROUP = "group"
    DOMAIN = "domain"
    ROOT = "root"
    NODE = "node"
    NAMESPACE = "namespace"


_OF_DEVICE: Final[dict[Grouping, Callable[[FleetDevice], Iterable[str]]]] = {
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


class SupplyRow(NamedTuple):
    """A group of devices by the values of its groupings."""

    values: tuple[str, ...]
    supply: FleetSupply


class SupplyAnswer(NamedTuple):
    """The rows of a list, and the fragmentation of the whole fleet."""

    by: tuple[Grouping, ...]
    rows: tuple[SupplyRow, ...]
    fragmentation: float | None
    causes: tuple[FragmentingPod, ...]


def answer(fleet: Fleet, devices: Sequence[FleetDevice], by: Sequence[Grouping]) -> SupplyAnswer:
    """
    Group devices; one that matches several classes counts in each of them.

    The fragmentation of the fleet is that of all devices.
    """
    sizes = {name: [each for each in fleet.sizes if each.device_class == name] for name in _classes(fleet)}
    groups: defaultdict[tuple[str, ...], list[FleetDevice]] = defaultdict(list)
    for device in devices:
        for values in _values(device, by):
            groups[values].append(device)
    at = by.index(Grouping.CLASS) if Grouping.CLASS in by and Grouping.NAMESPACE not in by else -1
    rows = [
        SupplyRow(values, supply_of(members, sizes.get(values[at], ()) if at >= 0 else ()))
        for values, members in sorted(groups.items())
    ]
    of_class = {name: supply_of((d for d in fleet.devices if name in d.classes), each) for name, each in sizes.items()}
    number = fleet_fragmentation(fleet, [(name, each.fragmentation) for name, each in of_class.items()])
    worst = {each for supply in of_class.values() for each in supply.causes}
    causes = sorted(worst, key=lambda each: (-each.stranded / each.held, each.pod, each.node))
    return SupplyAnswer(tuple(by), tuple(rows), number, tuple(causes[:_SHOWN_CAUSES]))


def _classes(fleet: Fleet) -> list[str]:
    return sorted({each.device_class for each in fleet.sizes})


def _values(device: FleetDevice, by: Sequence[Grouping]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for each in by:
        found = [(*before, value) for before in found for value in _OF_DEVICE[each](device)]
    return found


def show(found: SupplyAnswer, fleet: Fleet, to: TextIO, *, is_wide: bool = False) -> None:
    """Print the list, the fragmentation with its causes, and pools and classes that cannot be used."""
    has_blocked = any(row.supply.blocked for row in found.rows)
    has_roots = any(row.supply.largest.root is not None for row in found.rows)
    has_domains = any(row.supply.largest.domain is not None for row in found.rows)
    has_requests = any(row.supply.fragmentation is not None for row in found.rows)
    has_large_nodes = any(row.supply.largest.claim != row.supply.largest.node for row in found.rows)
    columns = (
        *(ListColumn(each.value.upper()) for each in found.by),
        ListColumn("TOTAL", is_number=True),
        ListColumn("HELD", is_number=True),
        ListColumn("FREE", is_number=True),
        ListColumn("BLOCKED", is_number=True, is_wide=not has_blocked),
        ListColumn("UNUSABLE", is_number=True),
        ListColumn("MAX/CLAIM", is_number=True, is_wide=not has_large_nodes),
        ListColumn("MAX/NODE", is_number=True),
        ListColumn("MAX/ROOT", is_number=True, is_wide=not has_roots),
        ListColumn("MAX/DOMAIN", is_number=True, is_wide=not has_domains),
        ListColumn("FRAGMENTED", is_number=True, is_wide=not has_requests),
        ListColumn("SHARED", is_number=True, is_wide=True),
        ListColumn("TAINTED", is_number=True, is_wide=True),
    )
    if found.rows:
        list_table.show(columns, map(_cells, found.rows), to, is_wide=is_wide)
    else:
        to.write(devices_output.NO_DEVICE)
    to.writelines(f"{terminal.escaped(line)}\n" for line in _notes(found, fleet))


def _notes(found: SupplyAnswer, fleet: Fleet) -> Iterator[str]:
    """Return the lines below the list."""
    if found.fragmentation:
        yield ""
        part = _percent(found.fragmentation)
        yield f"A typical request cannot use {part} of the free devices of its class (fragmentation)."
        yield from (f"  {_cause(each)}" for each in found.causes)
    if fleet.pools or fleet.broken_classes:
        yield ""
    yield from (f"Pool {pool.id} cannot be used: {pool.message}" for pool in fleet.pools)
    yield from (f"DeviceClass {name} matches nothing: its selectors cannot be read" for name in fleet.broken_classes)


def _cells(row: SupplyRow) -> list_table.Row:
    supply, largest = row.supply, row.supply.largest
    return (
        *(value or "-" for value in row.values),
        str(supply.total),
        str(supply.held),
        Coloured(str(supply.available), "green" if supply.available else ""),
        str(supply.blocked),
        Coloured(str(supply.unusable), "red" if supply.unusable else ""),
        str(largest.claim),
        str(largest.node),
        "-" if largest.root is None else str(largest.root),
        "-" if largest.domain is None else str(largest.domain),
        "-" if supply.fragmentation is None else _percent(supply.fragmentation),
        str(supply.shared),
        str(supply.tainted),
    )


def _percent(part: float) -> str:
    return f"{part:.0%}"


def _cause(each: FragmentingPod) -> str:
    return f"pod {each.pod} holds {each.held} on node {each.node}, where {each.stranded:.1f} free devices are left over"


def document(found: SupplyAnswer, fleet: Fleet) -> Json:
    """Convert the answer to plain values."""
    return {
        "by": [each.value for each in found.by],
        "items": [{**_values_document(found.by, row), **_supply(row.supply)} for row in found.rows],
        "fragmentation": _rounded(found.fragmentation),
        "causes": [_cause_document(each) for each in found.causes],
        "requests": [
            {"class": each.device_class, "count": each.count, "requests": each.requests} for each in fleet.sizes
        ],
        **devices_output.unusable_document(fleet),
    }


def _values_document(by: Sequence[Grouping], row: SupplyRow) -> Json:
    return {each.value: value or None for each, value in zip(by, row.values, strict=True)}


def _supply(supply: FleetSupply) -> Json:
    largest = supply.largest
    return {
        "total": supply.total,
        "held": supply.held,
        "free": supply.available,
        "shared": supply.shared,
        "blocked": supply.blocked,
        "unusable": supply.unusable,
        "tainted": supply.tainted,
        "largest": {
            "claim": largest.claim,
            "node": largest.node,
            "root": largest.root,
            "domain": largest.domain,
        },
        "fragmentation": _rounded(supply.fragmentation),
        "causes": [_cause_document(each) for each in supply.causes],
    }


def _cause_document(each: FragmentingPod) -> Json:
    return {"pod": str(each.pod), "node": each.node, "held": each.held, "stranded": _rounded(each.stranded)}


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
