"""`/v1alpha1/queue`: the pods that wait, in the order in which they would be decided."""

import asyncio
from datetime import UTC, datetime
from typing import Literal

import msgspec

from scheduler.api.caller_rights import CallerRights, Listed, VisibleNamespaces
from scheduler.api.queries import API_VERSION, HiddenCounts, Query
from scheduler.queue import QueuedPod, SchedulingQueue


class QueueItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A pod that waits. `position` counts from 1 among all waiting pods, also those that are not shown.

    `state` is that of the scheduling queue, `attempts` counts failed attempts, `reasons` are codes of the last one.
    """

    position: int
    namespace: str
    name: str
    priority: int
    state: str
    since: datetime
    attempts: int = 0
    reasons: tuple[str, ...] = ()


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document. `pods` is the number of all that wait."""

    api_version: str = API_VERSION
    kind: Literal["Queue"] = "Queue"
    pods: int
    truncated: bool = False
    hidden: HiddenCounts = HiddenCounts()
    items: tuple[QueueItem, ...] = ()


async def answer(queue: SchedulingQueue, query: Query, rights: CallerRights, now: tuple[float, float]) -> QueueAnswer:
    """Answer a query; `now` is in seconds since the epoch and by the clock of the queue. Raise `KubeError`."""
    waiting = queue.pods()
    numbered = await asyncio.to_thread(_numbered, waiting, query)
    pods = await rights.namespaces(Listed.PODS, (each.pod.id.namespace for _, each in numbered))
    return await asyncio.to_thread(_document, len(waiting), numbered, query, pods, now[0] - now[1])


def _numbered(waiting: list[QueuedPod], query: Query) -> list[tuple[int, QueuedPod]]:
    """Sort as the queue does, and take those that are asked about."""
    waiting.sort(key=lambda each: each.sort_key)
    return [
        (number, each)
        for number, each in enumerate(waiting, start=1)
        if query.namespace in {"", each.pod.id.namespace} and query.pod in {"", each.pod.id.name}
    ]


def _document(
    count: int, numbered: list[tuple[int, QueuedPod]], query: Query, pods: VisibleNamespaces, offset: float
) -> QueueAnswer:
    seen = [(number, each) for number, each in numbered if each.pod.id.namespace in pods]
    hidden = {each.pod.id.namespace for _, each in numbered if each.pod.id.namespace not in pods}
    return QueueAnswer(
        pods=count,
        truncated=len(seen) > query.limit,
        hidden=HiddenCounts(pods=len(numbered) - len(seen), namespaces=len(hidden)),
        items=tuple(
            QueueItem(
                position=number,
                namespace=each.pod.id.namespace,
                name=each.pod.id.name,
                priority=each.pod.priority,
                state=each.state,
                since=datetime.fromtimestamp(each.first_seen + offset, UTC),
                attempts=each.attempts,
                reasons=tuple(sorted(each.reasons)),
            )
            for number, each in seen[: query.limit]
        ),
    )
