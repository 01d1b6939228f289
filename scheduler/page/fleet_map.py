"""
The document of the map: the fleet in columns, with the numbers of `dovetail free` and the pods that wait.

A column has a number for each row of its table. A text column has indices of `FleetMap.texts`, which has each text
once. -1 stands for what is not there. docs/reference/documents.md has the fields for readers of the JSON.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.page import plan_pictures
from scheduler.page.plan_pictures import PlanPicture
from scheduler.simulation import devices_output, supply_output
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.simulation.quotas import quota_document
from scheduler.status.waiting_pods import WaitingPod
from scheduler.visibility import HiddenCounts
from solver import grouped_supply
from solver.domain import ClaimId, PodId, PoolId
from solver.domain.fleet import DeviceHolder, FleetDevice, Grouping

KIND: Final = "FleetMap"
NONE: Final = -1
_WHOLE: Final = 1000
"""Parts of a device and of a card are thousandths."""
_BY: Final = (Grouping.CLASS, Grouping.TYPE, Grouping.GROUP)
"""The groups of the numbers: those that `dovetail free` shows by default."""

Column = tuple[int, ...]


class NodeColumns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    Nodes, sorted by name, also those that do not exist and that devices name.

    `name`, `group`, `domain` and the columns of `labels`, by label key, are texts. `exists` is 0 or 1.
    """

    name: Column
    group: Column
    domain: Column
    exists: Column
    labels: dict[str, Column]


class DeviceColumns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    Devices, sorted by node.

    `node` is a row of the nodes, -1 for a device that several can use: `reach` is their number, -1 for all. `card` is
    the name of the counter set that a partition and its siblings draw on, else of the parent that they were cut from,
    and `part` what it takes of the card: the mean over all counters that devices of the card draw on, without counters
    an equal part. `used` is the part of a shareable device that is in use.
    `tainted` and `suspect` are 0 or 1. The others are texts: `cause` is the first of the problems, `why` a sentence
    fragment about all of them.
    """

    node: Column
    reach: Column
    name: Column
    driver: Column
    pool: Column
    type: Column
    classes: Column
    root: Column
    state: Column
    cause: Column
    why: Column
    card: Column
    part: Column
    used: Column
    left: Column
    tainted: Column
    suspect: Column


class HolderColumns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which claim holds which device: rows of the tables; `part` is what a share takes; `share` and `request` texts."""

    device: Column
    claim: Column
    request: Column
    share: Column
    part: Column
    admin: Column


class ClaimColumns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    Claims that hold devices. `pods` are rows of the pods, `consumers` texts of other entries of reservedFor.

    `since` is the text of an RFC 3339 time, `source` says what it is known from: `allocation` or `pod`.
    """

    namespace: Column
    name: Column
    since: Column
    source: Column
    pods: tuple[Column, ...]
    consumers: tuple[Column, ...]


class HoldingPodColumns(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods that hold devices: texts, and whether a pod does not exist any more (`gone`: 0 or 1)."""

    namespace: Column
    name: Column
    gang: Column
    gone: Column


class FleetMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The fleet at one time.

    `read_at` is an RFC 3339 time, `source` says in words where the objects come from. `total` is the row of all devices
    and `supply` the document of `dovetail free`. `unusable` counts the unusable devices by cause. `queue` is None where
    pods may not be listed, `quotas` (the items of `dovetail quota`) where DeviceQuotas may not. `forbidden` are the
    kinds that the caller may not list: their objects are missing. `hidden` counts what else is left out, because the
    caller may not list it in some namespaces: pods that wait, and holders.
    """

    read_at: str
    source: str
    version: str
    knows_holders: bool
    knows_conditions: bool
    forbidden: tuple[str, ...]
    total: dict[str, Any]
    unusable: dict[str, int]
    supply: dict[str, Any]
    queue: tuple[WaitingPod, ...] | None
    quotas: tuple[dict[str, Any], ...] | None
    nodes: NodeColumns
    devices: DeviceColumns
    holders: HolderColumns
    claims: ClaimColumns
    pods: HoldingPodColumns
    texts: tuple[str, ...]
    hidden: HiddenCounts = HiddenCounts()
    repairs: tuple[PlanPicture, ...] = ()
    """The RepairPlans that are not over, where they may be listed."""


class MapOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """When and from what a map was made, and by which version of Dovetail."""

    read_at: str
    source: str
    version: str


def map_of(found: FleetAnswer, queue: Sequence[WaitingPod] | None, origin: MapOrigin) -> FleetMap:
    """Make the document of a fleet and of the pods that wait."""
    fleet, texts = found.fleet, _Texts()
    devices = sorted(fleet.devices, key=lambda device: (device.node, device.id))
    names = sorted({*found.node_labels, *(device.node for device in devices if device.node)})
    supply = supply_output.document(grouped_supply(fleet, devices, _BY), fleet)
    rows = supply_output.document(grouped_supply(fleet, devices, ()), fleet)["items"]
    holders = _HolderTables(texts, {pod.id: str(pod.gang) for pod in found.pods if pod.gang is not None})
    for row, device in enumerate(devices):
        holders.add(row, device)
    causes = Counter(each.problems[0].cause.value for each in devices if each.state.value == "unusable")
    return FleetMap(
        read_at=origin.read_at,
        source=origin.source,
        version=origin.version,
        knows_holders=found.knows_holders,
        knows_conditions=found.knows_conditions,
        forbidden=found.forbidden,
        total=rows[0] if rows else {},
        unusable=dict(sorted(causes.items())),
        supply=supply,
        queue=None if queue is None else tuple(queue),
        quotas=None if found.quotas is None else tuple(map(quota_document.without_namespaces, found.quotas)),
        nodes=_nodes(names, devices, found.node_labels, texts),
        devices=_devices(devices, names, texts, knows_holders=found.knows_holders),
        **holders.columns(),
        repairs=tuple(filter(None, map(plan_pictures.of_plan, found.plans))),
        texts=texts.all(),
    )


class _Texts:
    """Each text once, by its index."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Return the index of a text; -1 for an empty one."""
        return self.exactly(text) if text else NONE

    def exactly(self, text: str) -> int:
        """Return the index of a text, also of an empty one."""
        return self._indices.setdefault(text, len(self._indices))

    def column(self, values: Iterable[str]) -> Column:
        """Return the indices of some texts."""
        return tuple(map(self.of, values))

    def all(self) -> tuple[str, ...]:
        """Return the texts, in the order of their indices."""
        return tuple(self._indices)


def _nodes(
    names: Sequence[str],
    devices: Iterable[FleetDevice],
    labels: Mapping[str, Mapping[str, str]],
    texts: _Texts,
) -> NodeColumns:
    first: dict[str, FleetDevice] = {}
    for device in devices:
        first.setdefault(device.node, device)
    of_nodes = [labels.get(name, {}) for name in names]
    keys = sorted({key for each in of_nodes for key in each})
    return NodeColumns(
        name=texts.column(names),
        group=texts.column(first[name].node_group if name in first else "" for name in names),
        domain=texts.column(first[name].domain if name in first else "" for name in names),
        exists=tuple(int(name in labels) for name in names),
        labels={key: tuple(texts.exactly(each[key]) if key in each else NONE for each in of_nodes) for key in keys},
    )


def _devices(
    devices: Collection[FleetDevice], nodes: Sequence[str], texts: _Texts, *, knows_holders: bool
) -> DeviceColumns:
    row_of = {name: row for row, name in enumerate(nodes)}
    return DeviceColumns(
        node=tuple(row_of.get(each.node, NONE) for each in devices),
        reach=tuple(NONE if each.nodes is None else len(each.nodes) for each in devices),
        name=texts.column(each.id.device for each in devices),
        driver=texts.column(each.id.driver for each in devices),
        pool=texts.column(each.id.pool for each in devices),
        type=texts.column(each.kind for each in devices),
        classes=texts.column(",".join(each.classes) for each in devices),
        root=texts.column(each.root for each in devices),
        state=texts.column(_state(each, knows_holders=knows_holders) for each in devices),
        cause=texts.column(each.problems[0].cause.value if each.problems else "" for each in devices),
        why=texts.column(map(devices_output.why_text, devices)),
        card=texts.column(_card(each) for each in devices),
        part=_parts(devices),
        used=tuple(map(_used, devices)),
        left=texts.column(map(devices_output.left_text, devices)),
        tainted=tuple(int(each.is_tainted) for each in devices),
        suspect=tuple(int(each.is_suspect) for each in devices),
    )


def _state(device: FleetDevice, *, knows_holders: bool) -> str:
    return devices_output.UNKNOWN if device.is_available and not knows_holders else device.state.value


def _card(device: FleetDevice) -> str:
    return next((each.counter_set for each in device.counters if each.is_published), device.parent)


def _parts(devices: Collection[FleetDevice]) -> Column:
    """Return what each device takes of its card; a partition draws only on some of the counters, the whole on all."""
    drawn: defaultdict[tuple[PoolId, str], set[str]] = defaultdict(set)
    siblings: Counter[tuple[PoolId, str]] = Counter()
    for device in devices:
        card = device.id.pool_id, _card(device)
        drawn[card].update(name for name, _ in _takes(device))
        siblings[card] += 1
    return tuple(_part(device, drawn, siblings) for device in devices)


def _part(
    device: FleetDevice, drawn: Mapping[tuple[PoolId, str], Collection[str]], siblings: Mapping[tuple[PoolId, str], int]
) -> int:
    card = device.id.pool_id, _card(device)
    if not card[1]:
        return _WHOLE
    if not drawn[card]:
        return _WHOLE // siblings[card]
    return round(_WHOLE * min(1.0, sum(part for _, part in _takes(device)) / len(drawn[card])))


def _takes(device: FleetDevice) -> Iterator[tuple[str, float]]:
    """Return the counters of its card that a device draws on, and the part of each."""
    card = _card(device)
    for each in device.counters:
        if each.is_published and each.counter_set == card and each.total:
            yield each.counter, each.takes / each.total


def _used(device: FleetDevice) -> int:
    used = [_WHOLE - each.left * _WHOLE // each.total for each in device.capacities if each.total]
    return max(used, default=NONE)


class _HolderTables:
    """The tables of holders, claims and pods, filled device by device; a claim and a pod stand there once."""

    def __init__(self, texts: _Texts, gangs: Mapping[PodId, str]) -> None:
        self._texts = texts
        self._gangs = gangs
        self._columns: defaultdict[str, list[int]] = defaultdict(list)
        self._claims: dict[ClaimId, DeviceHolder] = {}
        self._claim_rows: dict[ClaimId, int] = {}
        self._pod_rows: dict[PodId, int] = {}
        self._gone: set[PodId] = set()

    def add(self, row: int, device: FleetDevice) -> None:
        """Add the holders of a device."""
        totals = {each.name: each.total for each in device.capacities}
        for holder in device.holders:
            share = devices_output.share_text(holder, device.capacities)
            parts = [amount * _WHOLE // totals[name] for name, amount in holder.consumed if totals.get(name)]
            self._claims.setdefault(holder.claim, holder)
            self._gone.update(holder.gone)
            cells = {
                "device": row,
                "claim": self._claim_rows.setdefault(holder.claim, len(self._claim_rows)),
                "request": self._texts.of(holder.request),
                "share": self._texts.of(share),
                "part": max(parts, default=_WHOLE),
                "admin": int(holder.admin_access),
            }
            for name, cell in cells.items():
                self._columns[name].append(cell)

    def columns(self) -> dict[str, Any]:
        """Return the tables by the names of their fields."""
        texts, claims = self._texts, self._claims.values()
        pods = tuple(tuple(self._pod_rows.setdefault(pod, len(self._pod_rows)) for pod in each.pods) for each in claims)
        held = {name: tuple(self._columns[name]) for name in HolderColumns.__struct_fields__}
        return {
            "holders": HolderColumns(**held),
            "claims": ClaimColumns(
                namespace=texts.column(each.claim.namespace for each in claims),
                name=texts.column(each.claim.name for each in claims),
                since=texts.column(each.since for each in claims),
                source=texts.column(each.since_source.value for each in claims),
                pods=pods,
                consumers=tuple(texts.column(each.consumers) for each in claims),
            ),
            "pods": HoldingPodColumns(
                namespace=texts.column(pod.namespace for pod in self._pod_rows),
                name=texts.column(pod.name for pod in self._pod_rows),
                gang=texts.column(self._gangs.get(pod, "") for pod in self._pod_rows),
                gone=tuple(int(pod in self._gone) for pod in self._pod_rows),
            ),
        }
