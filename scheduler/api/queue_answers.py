"""`/v1alpha1/queue`: the pods that wait, in the order in which they would be decided."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.queries import API_VERSION, Query
from scheduler.status.waiting_pods import WaitingPod, numbered, waiting_pod
from scheduler.visibility import HiddenCounts, VisibleNamespaces

if TYPE_CHECKING:  # the command needs the document only
    from scheduler.queue import QueuedPod, SchedulingQueue
    from scheduler.status.status_writer import StatusWriter


class WaitingPods(NamedTuple):
    """The scheduling queue, and what its pods show."""

    queue: "SchedulingQueue"
    status: "StatusWriter"


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
    waiting = about.queue.pods()
    asked = await in_thread(_asked, waiting, query)
    pods = await rights.namespaces(Listed.PODS, (each.pod.id.namespace for each, _ in asked))
    return await in_thread(_document, about.status, asked, query, pods, count=len(waiting))


def _asked(waiting: "list[QueuedPod]", query: Query) -> "list[tuple[QueuedPod, int | None]]":
    """Sort as the queue does, and take those that are asked about."""
    waiting.sort(key=lambda each: each.sort_key)
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
