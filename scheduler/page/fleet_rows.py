"""
The map as rows, of which a caller that watches it is sent those that change.

A row names others and never says where they stand: in the columns of `FleetMap` one pod more shifts the indices of
half the document. The cells of a row, with texts in place of indices:

    nodes    name, group, domain, whether it exists, labels as an object
    devices  the columns of `devices`, the name of the node; holders: namespace, claim, request, share, part, admin
    claims   namespace, name, since, source, pods (namespace, name), consumers
    pods     namespace, name, gang, whether it is gone
    queue    how much the position is above the one before (null: none), the pod without its position
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from scheduler.page import map_page
from scheduler.page.fleet_map import NONE, Column, DeviceColumns, FleetMap
from scheduler.page.watched_document import WatchedDocument
from scheduler.status.waiting_pods import WaitingPod

_NUMBERS: Final = frozenset({"node", "reach", "part", "used", "tainted", "suspect"})
"""The columns of devices that are no texts."""
_TABLES: Final = ("nodes", "devices", "holders", "claims", "pods", "queue", "texts")
_FIELDS: Final = tuple(name for name in FleetMap.__struct_fields__ if name not in _TABLES)
Row = tuple[Any, ...]


def watched(found: FleetMap) -> WatchedDocument:
    """Make the document that is watched."""
    names = dict(zip(FleetMap.__struct_fields__, FleetMap.__struct_encode_fields__, strict=True))
    fields = {names[name]: getattr(found, name) for name in _FIELDS}
    return WatchedDocument(map_page.encoded(found), tables(found), fields, times=("readAt",))


def tables(found: FleetMap) -> dict[str, list[Row]]:
    """Return the rows of each table; the queue is missing where pods may not be listed."""
    texts = found.texts

    def text(index: int) -> str:
        return texts[index] if index != NONE else ""

    def column(indices: Column) -> Iterator[str]:
        return map(text, indices)

    nodes, claims, pods = found.nodes, found.claims, found.pods
    names = list(zip(column(pods.namespace), column(pods.name), strict=True))
    rows: dict[str, list[Row]] = {
        "nodes": list(
            zip(*map(column, (nodes.name, nodes.group, nodes.domain)), nodes.exists, _labels(found), strict=True)
        ),
        "devices": _devices(found, text),
        "claims": list(
            zip(
                *map(column, (claims.namespace, claims.name, claims.since, claims.source)),
                ([names[row] for row in each] for each in claims.pods),
                (list(column(each)) for each in claims.consumers),
                strict=True,
            )
        ),
        "pods": list(zip(*map(column, (pods.namespace, pods.name, pods.gang)), pods.gone, strict=True)),
    }
    return rows if found.queue is None else rows | {"queue": list(_steps(found.queue))}


def _labels(found: FleetMap) -> list[dict[str, str]]:
    labels: list[dict[str, str]] = [{} for _ in found.nodes.name]
    for key, indices in found.nodes.labels.items():
        for row, index in enumerate(indices):
            if index != NONE:
                labels[row][key] = found.texts[index]
    return labels


def _devices(found: FleetMap, text: Callable[[int], str]) -> list[Row]:
    """Return the columns of devices as rows, with the name of the node, and the holders as a last cell."""
    held, claims, devices = found.holders, found.claims, found.devices
    holders: defaultdict[int, list[Row]] = defaultdict(list)
    of_holders = zip(held.device, held.claim, held.request, held.share, held.part, held.admin, strict=True)
    for device, claim, request, share, part, admin in of_holders:
        named = text(claims.namespace[claim]), text(claims.name[claim])
        holders[device].append((*named, text(request), text(share), part, admin))
    names = [text(index) for index in found.nodes.name]
    cells: dict[str, Sequence[object]] = {
        name: getattr(devices, name) if name in _NUMBERS else [text(index) for index in getattr(devices, name)]
        for name in DeviceColumns.__struct_fields__
    }
    cells["node"] = [names[row] if row != NONE else "" for row in devices.node]
    return list(zip(*cells.values(), (holders.get(row, ()) for row in range(len(devices.node))), strict=True))


def _steps(queue: Sequence[WaitingPod]) -> Iterator[Row]:
    """Give each pod with its distance from the position before: pods behind one that leaves have the same row."""
    before = 0
    for pod in queue:
        step = None if pod.position is None else pod.position - before
        before = pod.position or before
        yield step, msgspec.structs.replace(pod, position=None)
