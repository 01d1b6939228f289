"""The pods that wait, as `dovetail queue` and the scheduler's API list them."""

import datetime as dt
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.kube.pod_writes import GATED, PendingPod
from scheduler.status.conditions import COUNTS, hints_of
from solver.domain import Pod

_NEW: Final = "New"
_NOT_SEEN: Final = "no scheduler has written a condition yet"


class WaitingPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """
    A pod of the queue. `position` counts decisions from 1, the pods of a gang have the same; a gated pod has none.

    `workload` is the object that a person made, such as `Job train`, where a controller made the pod.

    `since` is its creation, `unschedulable_since` when its condition became False. `reason` and `message` are those of
    the condition, `why` the part of the message that says what to do or what is missing.

    Only the running scheduler knows three fields: `state` in the scheduling queue, `attempts`, the number of failed
    ones, and `codes`, the reason codes of the last one.
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
    workload: str = ""
    nominated_node: str = ""
    gates: tuple[str, ...] = ()
    state: str = ""
    attempts: int = 0
    codes: tuple[str, ...] = ()


def numbered(ordered: Sequence[Pod]) -> list[tuple[Pod, int | None]]:
    """
    Number the decisions about pods in queue order, from 1; the pods of a gang have the number of its first pod.

    Gated pods have none, and stand at the end.
    """
    ready = [pod for pod in ordered if not pod.scheduling_gates]
    first: dict[object, int] = {}
    for pod in ready:
        first.setdefault(pod.gang or pod.id, len(first) + 1)
    ready.sort(key=lambda pod: first[pod.gang or pod.id])
    return [
        *((pod, first[pod.gang or pod.id]) for pod in ready),
        *((pod, None) for pod in ordered if pod.scheduling_gates),
    ]


def waiting_pod(pending: PendingPod, position: int | None) -> WaitingPod:
    """Return what is listed of a pod, with its position."""
    pod, found = pending.pod, pending.condition
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
        workload=pod.workload,
        nominated_node=pod.nominated_node_name,
        gates=pod.scheduling_gates,
    )


_TAINTS: Final = re.compile(r"(?:\d+ node\(s\) had untolerated taint \{[^}]*\}(?:; |\.|$))+")
"""What a message says of the taints that it has counted."""

_NAMES_ONLY: Final = ("did you mean ", "there are ", "there is ")
"""How hints of `wording.suggestion` begin: they do not say what is wrong."""


def short_reason(message: str) -> str:
    """
    Return the first hint of a condition's message, else what it says besides kube-scheduler's counts, else these.

    A hint that only names names follows what it is about.
    """
    counted = COUNTS.match(message)
    for hint in hints_of(message):
        about = (counted["counts"] or "") if counted is not None and hint.startswith(_NAMES_ONLY) else ""
        is_number = about[:1].isdigit()  # of nodes, which says nothing of names
        return f"{about}: {hint}" if about and not is_number else hint
    rest = message[counted.end() :] if counted is not None else message
    if counted is not None and counted["counts"] and _TAINTS.fullmatch(rest):
        return counted["counts"]
    return rest.rstrip(".") or (counted["counts"] if counted is not None else "") or message.rstrip(".")
