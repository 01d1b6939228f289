"""Objects of which one list is as long as possible: all in its first holder, or one entry in each of many holders."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from e2e.hostile.extremes.bases import base
from e2e.hostile.extremes.device_entries import CLAIM_ENTRIES, CLASS_ENTRIES, RULE_ENTRIES, SLICE_ENTRIES
from e2e.hostile.extremes.entries import Entries, Entry, Manifest
from e2e.hostile.extremes.other_entries import (
    ATTACHMENT_ENTRIES,
    BUDGET_ENTRIES,
    COSCHEDULING_ENTRIES,
    HOLD_ENTRIES,
    NAMESPACE_ENTRIES,
    NODE_DRIVER_ENTRIES,
    NODE_ENTRIES,
    POD_GROUP_ENTRIES,
    QUOTA_ENTRIES,
    STORAGE_CAPACITY_ENTRIES,
    STORAGE_CLASS_ENTRIES,
    STORAGE_DRIVER_ENTRIES,
    VOLUME_CLAIM_ENTRIES,
    VOLUME_ENTRIES,
)
from e2e.hostile.extremes.pod_entries import POD_ENTRIES
from e2e.hostile.extremes.sizes import most_that_fits
from scheduler.change import Kind

ENTRIES: Final[Mapping[Kind, Entries]] = {
    Kind.PODS: POD_ENTRIES,
    Kind.NODES: NODE_ENTRIES,
    Kind.NAMESPACES: NAMESPACE_ENTRIES,
    Kind.SLICES: SLICE_ENTRIES,
    Kind.CLASSES: CLASS_ENTRIES,
    Kind.CLAIMS: CLAIM_ENTRIES,
    Kind.TAINT_RULES: RULE_ENTRIES,
    Kind.VOLUMES: VOLUME_ENTRIES,
    Kind.VOLUME_CLAIMS: VOLUME_CLAIM_ENTRIES,
    Kind.STORAGE_CLASSES: STORAGE_CLASS_ENTRIES,
    Kind.NODE_DRIVERS: NODE_DRIVER_ENTRIES,
    Kind.STORAGE_CAPACITIES: STORAGE_CAPACITY_ENTRIES,
    Kind.STORAGE_DRIVERS: STORAGE_DRIVER_ENTRIES,
    Kind.ATTACHMENTS: ATTACHMENT_ENTRIES,
    Kind.BUDGETS: BUDGET_ENTRIES,
    Kind.POD_GROUPS: POD_GROUP_ENTRIES,
    Kind.COSCHEDULING_GROUPS: COSCHEDULING_ENTRIES,
    Kind.HOLDS: HOLD_ENTRIES,
    Kind.QUOTAS: QUOTA_ENTRIES,
}
"""The lists and maps of each kind."""
_MOST_OF_EACH: Final = 20_000
_LIST: Final = "[]"
_MAP: Final = "{}"
_BRACKETS: Final = (_LIST, _MAP)


def lists_on(path: str) -> tuple[str, ...]:
    """
    Return the paths of the lists and maps on a path.

    >>> lists_on("spec.containers[].ports[]")
    ('spec.containers[]', 'spec.containers[].ports[]')
    """
    parts = path.split(".")
    return tuple(".".join(parts[: at + 1]) for at, part in enumerate(parts) if part.endswith(_BRACKETS))


def widest(kind: Kind, path: str, start: Manifest | None = None) -> Manifest:
    """Make the list at a path as long as it may be, and as many of its holders as then fit."""
    lists = lists_on(path)
    counts = [1] * len(lists)
    for place in reversed(range(len(lists))):
        counts[place] = _fitting(kind, path, counts, place, start)
    return filled(kind, path, counts, start)


def spread(kind: Kind, path: str, start: Manifest | None = None) -> Manifest:
    """Make as many holders as fit, each with one entry at the path."""
    counts = [1] * len(lists_on(path))
    counts[0] = _fitting(kind, path, counts, 0, start)
    return filled(kind, path, counts, start)


def everything(kind: Kind) -> Manifest:
    """Fill all outer lists, each with as many entries as the others where the API admits them."""

    def make(count: int) -> Manifest:
        made = base(kind)
        for path, entry in ENTRIES[kind].items():
            if len(lists_on(path)) == 1:
                made = filled(kind, path, (min(count, entry.most),), made)
        return made

    return make(most_that_fits(kind, make, _MOST_OF_EACH))


def _fitting(kind: Kind, path: str, counts: Sequence[int], place: int, start: Manifest | None) -> int:
    def make(count: int) -> Manifest:
        return filled(kind, path, (*counts[:place], count, *counts[place + 1 :]), start)

    return most_that_fits(kind, make, ENTRIES[kind][lists_on(path)[place]].most)


def filled(kind: Kind, path: str, counts: Sequence[int], start: Manifest | None = None) -> Manifest:
    """Put so many entries into each list on a path."""
    made = copy.deepcopy(start if start is not None else base(kind))
    if kind is Kind.SLICES:
        _make_room(made["spec"], path)
    _fill(made, ENTRIES[kind], "", path.split("."), counts)
    return made


def _make_room(spec: Manifest, path: str) -> None:
    """Take away what a slice may not have beside the list at the path."""
    if path.startswith("spec.nodeSelector"):
        spec.pop("allNodes", None)
    if path.startswith("spec.devices[].nodeSelector"):
        spec.pop("allNodes", None)
        spec["perDeviceNodeSelection"] = True
    if path.startswith("spec.sharedCounters"):
        spec.pop("devices", None)


def _fill(holder: Manifest, entries: Entries, before: str, parts: list[str], counts: Sequence[int]) -> None:
    at = next(place for place, part in enumerate(parts) if part.endswith(_BRACKETS))
    for part in parts[:at]:
        if not isinstance(holder.get(part), dict):
            holder[part] = {}
        holder = holder[part]
    path = before + ".".join(parts[: at + 1])
    name, rest = parts[at][:-2], parts[at + 1 :]
    make = _maker(entries, path, rest)
    found = [make(index) for index in range(counts[0])]
    if rest:
        deeper = partial(_fill, entries=entries, before=f"{path}.", parts=rest, counts=counts[1:])
        found = [_deepened(each, deeper) for each in found]
    holder[name] = dict(found) if parts[at].endswith(_MAP) else found
    twin = entries[path].twin
    if twin:
        holder[twin] = holder[name]


def _maker(entries: Entries, path: str, rest: list[str]) -> Any:
    if rest:
        below: Entry = entries[lists_on(f"{path}.{'.'.join(rest)}")[len(lists_on(path))]]
        if below.holder is not None:
            return below.holder
    return entries[path].make


def _deepened(entry: Any, deeper: Any) -> Any:
    """Fill the lists of an entry."""
    key, value = entry if isinstance(entry, tuple) else ("", entry)
    value = copy.deepcopy(value)
    deeper(value)
    return (key, value) if isinstance(entry, tuple) else value
