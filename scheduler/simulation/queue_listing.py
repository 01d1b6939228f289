"""
`dovetail queue`: who waits for a scheduler, since when, and in which order the pods would be decided.

The order is that of the scheduling queue (`in_queue_order`); a gang is decided with its first pod. What only the
running scheduler knows is not in it: when it saw a pod, backoff, and which pods a change of the cluster wakes.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Final, TextIO

import msgspec

from scheduler.kube.pod_writes import GATED, PendingPod
from scheduler.queue import in_queue_order
from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import Coloured, ListColumn, Row
from scheduler.status.conditions import COUNTS, hints_of
from solver.domain import LabelSelector

_NEW: Final = "New"
_NOT_SEEN: Final = "no scheduler has written a condition yet"


class WaitingPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A pod of the queue. `position` counts decisions from 1, the pods of a gang have the same; a gated pod has none.

    `since` is its creation, `unschedulable_since` when its condition became False. `reason` and `message` are those of
    the condition, `why` the part of the message that says what to do or what is missing.
    """

    position: int | None = None
    namespace: str
    name: str
    priority: int = 0
    since: str = ""
    unschedulable_since: dt.datetime | None = None
    scheduler_name: str
    reason: str
    why: str
    message: str = ""
    gang: str = ""
    nominated_node: str = ""
    gates: tuple[str, ...] = ()


def listed(
    pods: Sequence[PendingPod],
    scheduler_names: Collection[str],
    namespace: str = "",
    selector: LabelSelector | None = None,
) -> tuple[WaitingPod, ...]:
    """
    List the waiting pods of some schedulers in the order of the queue; gated pods stand at the end.

    With a namespace or a selector only those pods are listed, at their positions among all.
    """
    ours = {each.pod.id: each for each in pods if each.pod.scheduler_name in scheduler_names}
    ready = [each.pod for each in ours.values() if not each.pod.scheduling_gates]
    ordered = in_queue_order(ready)
    first: dict[object, int] = {}
    for pod in ordered:
        first.setdefault(pod.gang or pod.id, len(first) + 1)
    placed = sorted(ordered, key=lambda pod: first[pod.gang or pod.id])
    gated = in_queue_order(each.pod for each in ours.values() if each.pod.scheduling_gates)
    found = (*((pod, first[pod.gang or pod.id]) for pod in placed), *((pod, None) for pod in gated))
    return tuple(
        _waiting(ours[pod.id], position)
        for pod, position in found
        if namespace in {"", pod.id.namespace} and (selector is None or selector.matches(dict(pod.labels)))
    )


def _waiting(pending: PendingPod, position: int | None) -> WaitingPod:
    pod, found = pending
    reason, message = (found.reason, found.message) if found is not None else (_NEW, "")
    if pod.scheduling_gates:
        reason, why = GATED, f"waits until these gates are removed: {', '.join(pod.scheduling_gates)}"
    elif pod.invalid:
        why = pod.invalid
    else:
        why = short_reason(message) if found is not None else _NOT_SEEN
    return WaitingPod(
        position=position,
        namespace=pod.id.namespace,
        name=pod.id.name,
        priority=pod.priority,
        since=pod.creation,
        unschedulable_since=found.since if found is not None and found.status == "False" else None,
        scheduler_name=pod.scheduler_name,
        reason=reason,
        why=why,
        message=message,
        gang=pod.gang.name if pod.gang is not None else "",
        nominated_node=pod.nominated_node_name,
        gates=pod.scheduling_gates,
    )


def short_reason(message: str) -> str:
    """Return the first hint of a condition's message, else what follows kube-scheduler's counts, else these."""
    for hint in hints_of(message):
        return hint
    counted = COUNTS.match(message)
    rest = message[counted.end() :] if counted is not None else message
    return rest.rstrip(".") or (counted["counts"] if counted is not None else "") or message.rstrip(".")


COLUMNS: Final = (
    ListColumn("#", is_number=True),
    ListColumn("NAMESPACE"),
    ListColumn("POD"),
    ListColumn("PRIORITY", is_number=True),
    ListColumn("WAITS"),
    ListColumn("REASON"),
    ListColumn("GANG", is_wide=True),
    ListColumn("SCHEDULER", is_wide=True),
    ListColumn("NOMINATED NODE", is_wide=True),
    ListColumn("WHY", is_sentence=True),
)


def show(pods: Sequence[WaitingPod], to: TextIO, now: dt.datetime, *, is_wide: bool, has_namespaces: bool) -> None:
    """Print the table."""
    if not pods:
        to.write("No pod waits.\n")
        return
    kept = [at for at, column in enumerate(COLUMNS) if has_namespaces or column.head != "NAMESPACE"]
    rows = [_row(each, now) for each in pods]
    columns = [COLUMNS[at] for at in kept]
    list_table.show(columns, [[row[at] for at in kept] for row in rows], to, is_wide=is_wide)


def _row(each: WaitingPod, now: dt.datetime) -> Row:
    return (
        str(each.position or "-"),
        each.namespace,
        each.name,
        str(each.priority),
        printing.age(each.since, now) or "-",
        Coloured(each.reason, "yellow"),
        each.gang or "-",
        each.scheduler_name,
        each.nominated_node or "-",
        each.why,
    )
