"""`/v1alpha1/queue`: the pods that wait, in the order in which they would be decided."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.queries import API_VERSION, Query
from scheduler.status.waiting_pods import WaitingPod, numbered, waiting_pod
from scheduler.visibility import HiddenCounts, VisibleNamespaces

if TYPE_CHECKING:  # the command needs the document only
    from scheduler.api.server_thread import SchedulingLoop
    from scheduler.queue import QueuedPod, SchedulingQueue
    from scheduler.status.status_writer import StatusWriter


_SHARED_SECONDS: Final = 0.2
"""How old a reading of the queue may be; the history is as old."""


class WaitingPods:
    """The scheduling queue, and what its pods show. Callers share a reading of the queue for a moment."""

    def __init__(
        self,
        queue: "SchedulingQueue",
        status: "StatusWriter",
        loop: "SchedulingLoop",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`loop` is the event loop that changes the queue."""
        self.queue: Final = queue
        self.status: Final = status
        self._loop: Final = loop
        self._clock: Final = clock
        self._reading: Final = asyncio.Lock()
        self._read_at = -math.inf
        self._pods: list[QueuedPod] = []

    async def pods(self) -> "list[QueuedPod]":
        """Return the pods that wait, in no order. Raise `Refusal`."""
        async with self._reading:
            if self._clock() - self._read_at >= _SHARED_SECONDS:
                self._pods, self._read_at = await self._loop.read(self.queue.pods), self._clock()
            return self._pods

    async def namespaces(self) -> "Iterable[str]":
        """Return the namespaces of the pods that wait. Raise `Refusal`."""
        pods = await self.pods()
        return await in_thread(lambda: dict.fromkeys(each.pod.id.namespace for each in pods))


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document. `waiting` is the number of all pods that wait; positions are those among all of them."""

    api_version: str = API_VERSION
    kind: Literal["Queue"] = "Queue"
    waiting: int
    truncated: bool = False
    hidden: HiddenCounts = HiddenCounts()
    pods: tuple[WaitingPod, ...] = ()


async def answer(about: WaitingPods, query: Query, rights: CallerRights) -> QueueAnswer:
    """Answer a query. Raise `KubeError`."""
    waiting = await about.pods()
    asked = await in_thread(_asked, waiting, query)
    pods = await rights.namespaces(Listed.PODS, (each.pod.id.namespace for each, _ in asked))
    return await in_thread(_document, about.status, asked, query, pods, count=len(waiting))


def _asked(waiting: "list[QueuedPod]", query: Query) -> "list[tuple[QueuedPod, int | None]]":
    """Sort as the queue does, and take those that are asked about."""
    waiting = sorted(waiting, key=lambda each: each.sort_key)
    queued = {each.pod.id: each for each in waiting}
    return [
        (queued[pod.id], position)
        for pod, position in numbered([each.pod for each in waiting])
        if query.namespace in {"", pod.id.namespace} and query.pod in {"", pod.id.name}
    ]


def _document(
    status: "StatusWriter",
    asked: "list[tuple[QueuedPod, int | None]]",
    query: Query,
    pods: VisibleNamespaces,
    *,
    count: int,
) -> QueueAnswer:
    seen = [(each, position) for each, position in asked if each.pod.id.namespace in pods]
    hidden = {each.pod.id.namespace for each, _ in asked if each.pod.id.namespace not in pods}
    return QueueAnswer(
        waiting=count,
        truncated=len(seen) > query.limit,
        hidden=HiddenCounts(pods=len(asked) - len(seen), namespaces=len(hidden)),
        pods=tuple(
            replace(
                waiting_pod(status.pending(each.pod), position),
                state=each.state.value,
                attempts=each.attempts,
                codes=tuple(sorted(each.reasons)),
            )
            for each, position in seen[: query.limit]
        ),
    )
