"""`/v1alpha1/history`: decisions, bindings and evictions, the newest first, without what the caller may not see."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, Literal, TypeVar

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.queries import API_VERSION, Query
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.records import HistoryRecord, PodEntry, PodNominated, PodPlaced, PodRecord, PodWaiting, pods_of
from scheduler.visibility import HiddenCounts, VisibleNamespaces

_MOST_PODS: Final = 20_000
"""The most pods of a document: some megabytes."""

E = TypeVar("E", PodPlaced, PodWaiting, PodNominated)
D = TypeVar("D", PodPlaced, PodRecord)


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The document. `oldest` is the time of the oldest record that is kept; older ones are dropped (`dropped` so far).

    `truncated` says that there are more records than were asked for, or than one document may have.
    """

    api_version: str = API_VERSION
    kind: Literal["History"] = "History"
    oldest: datetime | None = None
    dropped: int = 0
    truncated: bool = False
    hidden: HiddenCounts = HiddenCounts()
    items: tuple[HistoryRecord, ...] = ()


async def answer(history: DecisionHistory, query: Query, rights: CallerRights, now: float) -> HistoryAnswer:
    """Answer a query at a time (seconds since the epoch). Raise `KubeError`."""
    records, is_truncated = await in_thread(_select, history, query, now - query.since)
    oldest = await in_thread(history.oldest)
    named = dict.fromkeys(namespace for record in records for namespace in _namespaces(record))
    pods = await rights.namespaces(Listed.PODS, named)
    claims = await rights.namespaces(Listed.CLAIMS, named)
    shown, hidden = await in_thread(_visible, records, pods, claims)
    return HistoryAnswer(oldest=oldest, dropped=history.dropped, truncated=is_truncated, hidden=hidden, items=shown)


def _select(history: DecisionHistory, query: Query, since: float) -> tuple[list[HistoryRecord], bool]:
    """Return the newest records about the namespace or the pod, and whether there are more."""
    found: list[HistoryRecord] = []
    count = 0
    for record in history.newest(since):
        part = _about(record, query)
        if part is None:
            continue
        count += sum(1 for _ in pods_of(part))
        if len(found) == query.limit or (found and count > _MOST_PODS):
            return found, True
        found.append(part)
    return found, False


def _about(record: HistoryRecord, query: Query) -> HistoryRecord | None:
    """Return the part of a record that a query asks about; None where there is none."""
    if not query.namespace:
        return record

    def is_asked(each: PodEntry | PodRecord) -> bool:
        return each.namespace == query.namespace and query.pod in {"", each.name}

    if isinstance(record, PodRecord):
        return record if is_asked(record) else None
    part = msgspec.structs.replace(
        record,
        placed=tuple(filter(is_asked, record.placed)),
        waiting=tuple(filter(is_asked, record.waiting)),
        nominated=tuple(filter(is_asked, record.nominated)),
    )
    return part if any(pods_of(part)) else None


def _namespaces(record: HistoryRecord) -> Iterator[str]:
    """Return the namespaces of the pods that a record names."""
    yield from (each.namespace for each in pods_of(record))
    if isinstance(record, PodRecord) and record.preemptor:
        yield record.preemptor.partition("/")[0]


def _visible(
    records: Iterable[HistoryRecord], pods: VisibleNamespaces, claims: VisibleNamespaces
) -> tuple[tuple[HistoryRecord, ...], HiddenCounts]:
    """Leave out what may not be seen, and count it."""
    view = _View(pods, claims)
    shown = tuple(part for each in records if (part := view.part(each)) is not None)
    return shown, HiddenCounts(pods=view.hidden_pods, devices=view.hidden_devices, namespaces=len(view.namespaces))


class _View:
    """What one caller sees of records, and how much of them not."""

    def __init__(self, pods: VisibleNamespaces, claims: VisibleNamespaces) -> None:
        self._pods: Final = pods
        self._claims: Final = claims
        self.hidden_pods = 0
        self.hidden_devices = 0
        self.namespaces: Final[set[str]] = set()

    def part(self, record: HistoryRecord) -> HistoryRecord | None:
        """Return what is seen of a record. Levels and files are of all pods: callers must be allowed to list them."""
        if isinstance(record, PodRecord):
            return self._with_preemptor(self._with_devices(record)) if self._is_seen(record) else None
        part = msgspec.structs.replace(
            record,
            placed=tuple(map(self._with_devices, self._seen(record.placed))),
            waiting=self._seen(record.waiting),
            nominated=self._seen(record.nominated),
        )
        if self._pods.everything:
            return part
        return msgspec.structs.replace(part, levels=(), file="") if any(pods_of(part)) else None

    def _seen(self, entries: tuple[E, ...]) -> tuple[E, ...]:
        return tuple(each for each in entries if self._is_seen(each))

    def _is_seen(self, entry: PodEntry | PodRecord) -> bool:
        if entry.namespace in self._pods:
            return True
        self.hidden_pods += 1
        self.namespaces.add(entry.namespace)
        return False

    def _with_preemptor(self, record: PodRecord) -> PodRecord:
        """Leave out the preemptor that may not be seen; the message says no more of it than the event does."""
        if record.preemptor.partition("/")[0] in self._pods:
            return record
        return msgspec.structs.replace(record, preemptor="")

    def _with_devices(self, entry: D) -> D:
        if not entry.devices or entry.namespace in self._claims:
            return entry
        self.hidden_devices += len(entry.devices)
        return msgspec.structs.replace(entry, devices=())
