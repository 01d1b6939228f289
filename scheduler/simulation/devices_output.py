"""Prints devices with their holders: as a list with a row for each holder, or as JSON or YAML (docs/devices.md)."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from scheduler.change import Kind
from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import Coloured, ListColumn
from scheduler.simulation.printing import runs
from solver.domain import Pod, QuotaState
from solver.domain.fleet import (
    CapacityLeft,
    CounterLeft,
    DeviceHolder,
    DeviceState,
    Fleet,
    FleetDevice,
    SinceSource,
    UnusableCause,
)
from solver.domain.quantity import format_nano

if TYPE_CHECKING:  # the client of the cluster takes a while to import
    from scheduler.kube.pod_writes import PendingPod
    from scheduler.kube.repair_plans import RepairPlan

Json = dict[str, Any]

UNKNOWN: Final = "unknown"
"""The state of a device that no claim may hold, where claims cannot be listed."""
NO_DEVICE: Final = "No device found: what you asked for does not exist, or has no device.\n"
_COLOURS: Final = {
    DeviceState.FREE: "green",
    DeviceState.SHARED: "green",
    DeviceState.BLOCKED: "yellow",
    DeviceState.UNUSABLE: "red",
}
_OF_NODES: Final = frozenset({UnusableCause.NODE_CORDONED, UnusableCause.NODE_GONE, UnusableCause.NODE_NOT_READY})
"""Causes that are no fault of a device."""
_PLAIN_STATES: Final = {state: Coloured(state.value, _COLOURS.get(state, "")) for state in DeviceState}
"""The cells of devices of which nothing else is to be said."""
_RESERVED: Final = Coloured("reserved", "yellow")
_WHY_RESERVED: Final = "its node is reserved for a pod that has waited too long"
_WIDE_COLUMNS: Final = tuple(map(ListColumn, ("LEFT", "DRIVER", "POOL", "CLASSES", "ROOT", "DOMAIN")))
_NO_HOLDER: Final = ("",) * 5
"""The cells of a device without a holder, with that of its share."""
_MEBIBYTE: Final = 2**20 * 10**9
"""In nano-units."""


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """
    A fleet, and what was not read.

    `node_labels` are by node; without `has_node` the node that was asked for does not exist. Without claims
    (`forbidden`) it is not known which devices are held. `unreadable` are files and documents that cannot be read.

    `quotas` are the DeviceQuotas, None where they may not be listed, `plans` the RepairPlans that may be; they too are
    read only for the map.

    `pods` are those with a node, `waiting` those without one in the order of the source, None where they may not be
    listed; both are read only for the map. `knows_conditions` says that a pod without a condition has none.
    `reserved_nodes` are those whose devices are reserved for starving pods, None where this is not known. `node_taints`
    are the taints that keep pods without a toleration off, as `key:effect`, of the nodes that have some.
    """

    fleet: Fleet
    node_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()
    waiting: "tuple[PendingPod, ...] | None" = ()
    quotas: tuple[QuotaState, ...] | None = ()
    plans: "tuple[RepairPlan, ...]" = ()
    knows_conditions: bool = True
    has_node: bool = True
    reserved_nodes: frozenset[str] | None = frozenset()
    node_taints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def knows_holders(self) -> bool:
        """Whether claims were read."""
        return Kind.CLAIMS not in self.forbidden

    @property
    def knows_nodes(self) -> bool:
        """Whether nodes were read."""
        return Kind.NODES not in self.forbidden


def show(
    devices: Sequence[FleetDevice],
    to: TextIO,
    now: datetime,
    *,
    is_wide: bool = False,
    is_grouped: bool = False,
    knows_holders: bool = True,
    reserved_nodes: Collection[str] | None = (),
) -> None:
    """
    Print a row for each holder of each device, and one for each device without a holder.

    With `is_grouped` rows that differ in the name of the device only are one row, and devices with which nothing is
    wrong but their node stand last: one row for each node, but not with `is_wide`.
    """
    if not devices:
        to.write(NO_DEVICE)
        return
    has_shares = is_wide or any(device.capacities for device in devices)
    columns = (
        ListColumn("NODE", is_copied=True),
        ListColumn("DEVICE", is_copied=True),
        ListColumn("TYPE", is_product=True, rank=1),
        ListColumn("STATE", is_fixed=True),
        ListColumn("NAMESPACE", is_copied=True),
        ListColumn("CLAIM", is_copied=True, rank=2),
        ListColumn("POD", is_copied=True),
        ListColumn("SINCE", is_number=True),
        *((ListColumn("SHARE"),) if has_shares else ()),
        ListColumn("WHY", is_sentence=True),
        *(_WIDE_COLUMNS if is_wide else ()),
    )
    row = _Rows(
        now,
        knows_holders=knows_holders,
        has_shares=has_shares,
        is_wide=is_wide,
        reserved_nodes=reserved_nodes or (),
        ages={},
    )
    last = [device for device in devices if device.is_network]
    ordered = [*(device for device in devices if not device.is_network), *last] if last else devices
    if not is_grouped:
        list_table.show(columns, row.of_all(ordered), to, is_wide=is_wide)
        return
    of_nodes = [device for device in ordered if _is_of_node(device)]
    faulty = row.of_all(device for device in ordered if not _is_of_node(device))
    rest = _grouped(row.of_all(of_nodes)) if is_wide else row.of_nodes(of_nodes)
    list_table.show(columns, itertools.chain(_grouped(faulty), rest), to, is_wide=is_wide)


def _is_of_node(device: FleetDevice) -> bool:
    """Whether nothing is wrong with a device but its node."""
    return not device.is_suspect and all(each.cause in _OF_NODES for each in device.problems)


def _grouped(rows: Iterable[list_table.Row]) -> Iterator[list_table.Row]:
    """Join rows that follow each other and are equal in all cells but the second, the device."""
    for _, same in itertools.groupby(rows, lambda row: (row[0], *row[2:])):
        first, *others = same
        names = (str(row[1]) for row in (first, *others))
        yield (first[0], ", ".join(runs(names)), *first[2:])


def is_reserved(device: FleetDevice, nodes: Collection[str]) -> bool:
    """Whether a device could be had if its node were not reserved for a starving pod."""
    return device.node in nodes and device.is_available


def document(
    fleet: Fleet,
    devices: Iterable[FleetDevice],
    *,
    knows_holders: bool = True,
    reserved_nodes: Collection[str] | None = (),
) -> Json:
    """Convert devices, and the pools that cannot be used, to plain values."""
    return {
        "items": [
            _device(each, knows_holders=knows_holders)
            | {"reserved": None if reserved_nodes is None else is_reserved(each, reserved_nodes)}
            for each in devices
        ],
        **unusable_document(fleet),
    }


def unusable_document(fleet: Fleet) -> Json:
    """Convert the pools and classes that cannot be used to plain values."""
    return {
        "unusablePools": [
            {
                "driver": each.id.driver,
                "pool": each.id.pool,
                "generation": each.generation,
                "publishedSlices": each.published,
                "statedSlices": each.slice_count,
                "message": each.message,
            }
            for each in fleet.pools
        ],
        "brokenClasses": list(fleet.broken_classes),
    }


def age(since: str, source: SinceSource, now: datetime) -> str:
    """Write how long ago a time was, as kubectl does; `>` where only the start of a pod is known."""
    found = printing.age(since, now) if source is not SinceSource.UNKNOWN else ""
    return (">" if source is SinceSource.POD else "") + found if found else UNKNOWN


class _Rows(NamedTuple):
    """Writes the cells of devices: a row for each holder. What no column shows is not made for 40,000 devices."""

    now: datetime
    knows_holders: bool
    has_shares: bool
    is_wide: bool
    reserved_nodes: Collection[str]
    ages: dict[tuple[str, SinceSource], str]
    """Those that are written already: a claim holds several devices."""

    def of_all(self, devices: Iterable[FleetDevice]) -> Iterator[list_table.Row]:
        """Write the rows of devices."""
        return itertools.chain.from_iterable(map(self.of, devices))

    def of_nodes(self, devices: Iterable[FleetDevice]) -> Iterator[list_table.Row]:
        """Write a row for each node, with the number of its devices, and of those that are held."""
        found: dict[tuple[str, str], list[FleetDevice]] = {}
        for device in devices:
            found.setdefault((device.node or _place(device), why_text(device)), []).append(device)
        for (node, why), same in found.items():
            if len(same) == 1:
                yield from _grouped(self.of(same[0]))
                continue
            state = Coloured(same[0].problems[0].cause.value, _COLOURS[DeviceState.UNUSABLE])
            held = sum(bool(device.holders) for device in same)
            of_them = f"; {held} of them {'is' if held == 1 else 'are'} held" if held else ""
            yield (node, f"{len(same)} devices", "", state, *self._nothing, f"{why}{of_them}")

    def of(self, device: FleetDevice) -> Iterator[list_table.Row]:
        """Write the rows of a device."""
        if device.problems or device.is_suspect or device.state is DeviceState.BLOCKED or not self.knows_holders:
            words, why = state_text(device, knows_holders=self.knows_holders), why_text(device)
            state = Coloured(words, _COLOURS.get(device.state, "") if words != UNKNOWN else "")
        else:
            state, why = _PLAIN_STATES[device.state], ""
        if self.knows_holders and is_reserved(device, self.reserved_nodes):
            state, why = _RESERVED, _WHY_RESERVED
        where = (device.node or _place(device), device.id.device, device.kind, state)
        rest = (why, *_wide_cells(device)) if self.is_wide else (why,)
        if not device.holders:
            yield (*where, *self._nothing, *rest)
        for holder in device.holders:
            share = (share_text(holder, device.capacities),) if self.has_shares else ()
            yield (*where, *self._holder_cells(holder), *share, *rest)

    @property
    def _nothing(self) -> tuple[str, ...]:
        return _NO_HOLDER if self.has_shares else _NO_HOLDER[1:]

    def _holder_cells(self, holder: DeviceHolder) -> tuple[str, ...]:
        pods = [f"{each.name} (gone)" if each in holder.gone else each.name for each in holder.pods]
        key = holder.since, holder.since_source
        if key not in self.ages:
            self.ages[key] = age(*key, self.now)
        return holder.claim.namespace, holder.claim.name, ",".join([*pods, *holder.consumers]), self.ages[key]


def _wide_cells(device: FleetDevice) -> tuple[str, ...]:
    return left_text(device), device.id.driver, device.id.pool, ",".join(device.classes), device.root, device.domain


def _place(device: FleetDevice) -> str:
    if device.node or device.nodes == ():
        return device.node
    return "all nodes" if device.nodes is None else f"{len(device.nodes)} nodes"


def state_text(device: FleetDevice, *, knows_holders: bool) -> str:
    """Write the state of a device: an unusable one by its first cause, a held one with the cause behind."""
    cause = device.problems[0].cause.value if device.problems else ""
    if device.state is DeviceState.UNUSABLE:
        return cause
    if not knows_holders and device.is_available:
        return UNKNOWN
    if device.state is DeviceState.BLOCKED:
        return f"{device.state.value},{'counters' if _short_counters(device) else 'groups'}"
    hides = device.problems and device.problems[0].cause is not UnusableCause.NOT_OWNED
    return f"{device.state.value},{cause}" if hides else device.state.value


def why_text(device: FleetDevice) -> str:
    """Say why claims cannot get a device, or what else a user has to know of it."""
    if device.problems:
        return "; ".join(each.message for each in device.problems)
    if device.is_suspect:
        return "a pod failed on it, or it was reported unhealthy: it is allocated last"
    if device.state is DeviceState.BLOCKED:
        short = _short_counters(device)
        return _short_counter(short[0]) if short else "no compatibility group in common with devices in use"
    return ""


def _short_counters(device: FleetDevice) -> list[CounterLeft]:
    """Return the counters of which a device takes more than is left."""
    return [each for each in device.counters if each.takes > each.left and each.is_published]


def _short_counter(each: CounterLeft) -> str:
    left = f"{_amount(each.left)} left" if each.left < each.total else f"there are {_amount(each.total)} in all"
    return f"takes {_amount(each.takes)} of counter {each.counter_set}/{each.counter}, {left}"


def _amount(nano: int) -> str:
    """Write an amount of a counter: in binary units where it is a number of mebibytes."""
    return format_nano(nano, like="" if nano % _MEBIBYTE else "Mi")


def left_text(device: FleetDevice) -> str:
    """Write what is left of the capacities of a shareable device."""
    return ", ".join(f"{format_nano(each.left, like=each.like)} {each.name}" for each in device.capacities)


def share_text(holder: DeviceHolder, capacities: Sequence[CapacityLeft]) -> str:
    """Write what a holder has of a device; empty where it has all of it."""
    if holder.admin_access:
        return "admin access"
    like = {each.name: each.like for each in capacities}
    return ", ".join(f"{format_nano(amount, like=like.get(name, ''))} {name}" for name, amount in holder.consumed)


def _device(device: FleetDevice, *, knows_holders: bool) -> Json:
    unknown = not knows_holders and device.is_available
    return {
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
        "node": device.node or None,
        "nodeCount": None if device.nodes is None else len(device.nodes),
        "nodeGroup": device.node_group or None,
        "type": device.kind or None,
        "classes": list(device.classes),
        "root": device.root or None,
        "domain": device.domain or None,
        "state": UNKNOWN if unknown else device.state.value,
        "suspect": device.is_suspect,
        "problems": [{"cause": each.cause.value, "message": each.message} for each in device.problems],
        "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in device.taints],
        "holders": [_holder(each, device.capacities) for each in device.holders],
        "capacity": {
            each.name: {"total": each.like, "left": format_nano(each.left, like=each.like)}
            for each in device.capacities
        },
        "counters": [
            {
                "counterSet": each.counter_set,
                "counter": each.counter,
                "takes": _amount(each.takes),
                "left": _amount(each.left),
                "total": _amount(each.total),
            }
            for each in device.counters
            if each.is_published
        ],
    }


def _holder(holder: DeviceHolder, capacities: Sequence[CapacityLeft]) -> Json:
    like = {each.name: each.like for each in capacities}
    return {
        "claim": str(holder.claim),
        "pods": [str(each) for each in holder.pods],
        "gonePods": [str(each) for each in holder.gone],
        "consumers": list(holder.consumers),
        "request": holder.request,
        "shareID": holder.share_id or None,
        "consumed": {name: format_nano(amount, like=like.get(name, "")) for name, amount in holder.consumed},
        "adminAccess": holder.admin_access,
        "since": holder.since or None,
        "sinceSource": holder.since_source.value or None,
    }
