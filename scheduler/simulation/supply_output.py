"""Prints what is free, by class, type and group of nodes: as a list, or as JSON or YAML (docs/devices.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

from scheduler.simulation import devices_output, list_table
from scheduler.simulation.list_table import Coloured, ListColumn
from solver.domain import wording
from solver.domain.fleet import (
    Fleet,
    FleetDevice,
    FleetSupply,
    FragmentingPod,
    GroupedSupply,
    Grouping,
    SupplyRow,
)

Json = dict[str, Any]

_COPIED: Final = frozenset({Grouping.CLASS, Grouping.NODE, Grouping.NAMESPACE})
"""Groupings whose values are names that a user copies into manifests and commands."""
_MOST_CLASSES: Final = 4
"""Classes whose fragmentation is named below the list."""


class BehindTaints(NamedTuple):
    """How many free devices are on nodes with taints that a pod has to tolerate, and these taints, as `key:effect`."""

    devices: int
    taints: tuple[str, ...]

    def __str__(self) -> str:
        are, them = ("is on a node", "it") if self.devices == 1 else ("are on nodes", "them")
        return (
            f"Of the free devices, {self.devices} {are} with taints: a pod that does not tolerate "
            f"{', '.join(self.taints)} cannot have {them}."
        )


def behind_taints(devices: Iterable[FleetDevice], node_taints: Mapping[str, Sequence[str]]) -> BehindTaints | None:
    """Count the free devices of nodes with taints; None where there is none."""
    tainted = [each.node for each in devices if each.node in node_taints and each.is_available]
    taints = {taint for node in tainted for taint in node_taints[node]}
    return BehindTaints(len(tainted), tuple(sorted(taints))) if tainted else None


def show(
    found: GroupedSupply,
    fleet: Fleet,
    to: TextIO,
    *,
    is_wide: bool = False,
    reserved: int | None = 0,
    tainted: BehindTaints | None = None,
) -> None:
    """
    Print the list, the fragmentation with its causes, and pools and classes that cannot be used.

    `reserved` is the number of free devices on nodes that are reserved for starving pods, None where it is not known;
    `tainted` are those behind taints of nodes.
    """
    has_unusable = any(row.supply.unusable for row in found.rows)
    has_blocked = any(row.supply.blocked for row in found.rows)
    has_roots = any(row.supply.largest.root is not None for row in found.rows)
    has_domains = any(row.supply.largest.domain is not None for row in found.rows)
    has_requests = any(row.supply.fragmentation is not None for row in found.rows)
    has_large_nodes = any(row.supply.largest.claim != row.supply.largest.node for row in found.rows)
    columns = (
        *(
            ListColumn(each.value.upper(), is_copied=each in _COPIED, is_product=each is Grouping.TYPE)
            for each in found.by
        ),
        ListColumn("TOTAL", is_number=True, rank=5),
        ListColumn("HELD", is_number=True),
        ListColumn("FREE", is_number=True),
        ListColumn("BLOCKED", is_number=True, is_wide=not has_blocked),
        ListColumn("UNUSABLE", is_number=True, is_wide=not has_unusable),
        ListColumn("MAX/CLAIM", is_number=True, is_wide=not has_large_nodes, rank=4),
        ListColumn("MAX/NODE", is_number=True),
        ListColumn("MAX/ROOT", is_number=True, is_wide=not has_roots, rank=3),
        ListColumn("MAX/DOMAIN", is_number=True, is_wide=not has_domains, rank=2),
        ListColumn("FRAGMENTED", is_number=True, is_wide=not has_requests, rank=1),
        ListColumn("SHARED", is_number=True, is_wide=True),
        ListColumn("TAINTED", is_number=True, is_wide=True),
    )
    if found.rows:
        list_table.show(columns, map(_cells, found.rows), to, is_wide=is_wide)
    else:
        to.write(devices_output.NO_DEVICE)
    if reserved:
        are = "is on a node that is" if reserved == 1 else "are on nodes that are"
        text = f"Of the free devices, {reserved} {are} reserved for a pod that has waited too long (dovetail devices)."
        list_table.write(["", text], to)
    if tainted is not None:
        list_table.write(["", str(tainted)], to)
    list_table.write(_notes(found, fleet), to)


def _notes(found: GroupedSupply, fleet: Fleet) -> Iterator[str]:
    """Return the lines below the list."""
    if found.fragmentation:
        yield ""
        where = " of these nodes" if found.is_part else ""
        mean = f" ({_by_class(found)}; weighted by how often each is asked for)" if _has_classes(found) else ""
        part = _percent(found.fragmentation)
        yield (
            f"Fragmentation: {part} of the free devices{where} are of no use to a typical claim{mean}, as their node "
            "has too few left."
        )
        yield from (f"  {each}" for each in _kept_out(found.causes))
    has_problems = any(row.supply.unusable or row.supply.tainted for row in found.rows)
    if fleet.pools or fleet.broken_classes or has_problems:
        yield ""
    if has_problems:
        yield "`dovetail devices --problems` names the unusable and the tainted devices, and says why."
    yield from (f"Pool {pool.id} cannot be used: {pool.message}" for pool in fleet.pools)
    yield from (f"DeviceClass {name} matches nothing: its selectors cannot be read" for name in fleet.broken_classes)


def _has_classes(found: GroupedSupply) -> bool:
    """Whether the list has the fragmentation of several classes."""
    fragmented = [row.values for row in found.rows if row.supply.fragmentation is not None]
    return Grouping.CLASS in found.by and len({values[found.by.index(Grouping.CLASS)] for values in fragmented}) > 1


def _by_class(found: GroupedSupply) -> str:
    """Write the fragmentation of each class, the worst first: `14% of gpu, 0% of mig`."""
    at, parts = found.by.index(Grouping.CLASS), dict[str, float]()
    for row in found.rows:
        if row.supply.fragmentation is not None:
            name = row.values[at]
            parts[name] = max(parts.get(name, 0.0), row.supply.fragmentation)
    worst = sorted(parts.items(), key=lambda each: (-each[1], each[0]))
    return wording.shortened([f"{_percent(part)} of {name}" for name, part in worst], _MOST_CLASSES)


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
    """Write a share as `5%`; what is not 0 is never said to be."""
    return "<1%" if 0 < part < 0.005 else f"{part:.0%}"  # noqa: PLR2004 - the half of a percent


def _kept_out(causes: Sequence[FragmentingPod]) -> Iterator[str]:
    """Say which pods keep larger claims out of how many nodes, and what moves them."""
    found: dict[tuple[str, int, int], list[FragmentingPod]] = {}
    for each in causes:
        if each.size:
            found.setdefault((each.device_class, each.size, each.pods), []).append(each)
    for (name, size, pods), held in found.items():
        nodes = list(dict.fromkeys(each.node for each in held))
        where = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        what = ("hold" if len(nodes) > 1 else "holds") + (" one pod" if pods == 1 else f" {pods} pods")
        each_of = " each" if len(nodes) > 1 else ""
        verb = "keeps" if pods == 1 else "keep"
        named = ", ".join(f"{each.pod} on {each.node}" for each in held)
        more = pods * len(nodes) - len(held)
        others = f" and {more} more" if more > 0 else ""
        yield f"{where} {what}{each_of} that {verb} claims for {size} × {name} out: {named}{others}"
    if found:
        yield "`dovetail repair plan --for pod/NAME` says which pods to move for one that waits."
        yield "Where none waits, `repair.mode: advise` has the scheduler plan moves that mend it."


def document(found: GroupedSupply, fleet: Fleet) -> Json:
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
    return {
        "pod": str(each.pod),
        "node": each.node,
        "held": each.held,
        "stranded": _rounded(each.stranded),
        "class": each.device_class,
        "keepsOut": each.size or None,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
