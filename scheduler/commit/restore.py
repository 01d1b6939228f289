"""
Restores waiting times after a restart: since when pods are unschedulable, and which pods started before them.

Both are in the API: in the condition PodScheduled=False of waiting pods (also whether nodes were reserved for them),
and in the start times of running ones. A reason that this version does not know, after a roll-back, is logged, and the
wait counts from now on. Pods that started and have ended since are not known, so that a wait is rather counted too
short than too long. Where the clock was set back since, what lies in the future counts from now on.
"""

import datetime as dt
import time
from collections.abc import Callable, Collection
from typing import Final

from scheduler.change import Kind
from scheduler.cluster import Cluster
from scheduler.kube import pod_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError, KubeError
from scheduler.observe import logs
from scheduler.queue import StarvationTracker
from scheduler.status.conditions import ConditionReason
from scheduler.status.status_writer import StatusWriter
from scheduler.unreadable import cut
from solver.domain import PASSED_OVER, Pod

_FOR_ROOM: Final = frozenset(
    {
        ConditionReason.UNSCHEDULABLE,
        ConditionReason.WAITING_FOR_ROOM,
        ConditionReason.NODE_RESERVED,
        ConditionReason.ROOM_HELD,
    }
)
"""Reasons of pods that lack room or devices."""

_MOST_LOGGED: Final = 100
_SINCE: Final = "status.conditions[PodScheduled].lastTransitionTime"
_REASON: Final = "status.conditions[PodScheduled].reason"

_log: Final = logs.logger()


async def restore_waiting_times(
    client: Client,
    cluster: Cluster,
    receivers: tuple[StarvationTracker, StatusWriter],
    scheduler_names: Collection[str],
    *,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """
    Restore the waiting times of these schedulers' pods, once, before the first decision.

    `clock` is the queue's, `wall_clock` gives seconds since the epoch. Where the pods cannot be listed, this is logged
    and waits count from now on.
    """
    problems: list[DecodeError] = []
    try:
        waits = await pod_writes.read_unschedulable_pods(client, problems.append)
    except KubeError as error:
        _log.warning(logs.WATCH_FAILED, kind=Kind.PODS, error=str(error))
        waits = ()
    starvation, reports = receivers
    now = clock()
    behind = wall_clock() - now
    waiting, overdue, known = list[tuple[Pod, float]](), set[str](), set(ConditionReason)
    for wait in waits:
        pod = cluster.observed_pod(wait.pod)
        if pod is None or pod.uid != wait.uid or pod.node_name or pod.scheduler_name not in scheduler_names:
            continue
        try:
            since, seconds = wait.since.astimezone(dt.UTC), min(now, wait.since.timestamp() - behind)
        except (OverflowError, ValueError, OSError):  # year 1 or 9999 in another time zone, or too far for the clock
            problems.append(DecodeError(Kind.PODS, str(pod.id), _SINCE, "this time is out of range"))
            continue
        reports.restore_since(pod.uid, since)
        if wait.reason not in known:
            problems.append(DecodeError(Kind.PODS, str(pod.id), _REASON, f"this version knows no {cut(wait.reason)}"))
        if wait.reason in _FOR_ROOM:
            waiting.append((pod, seconds))
        if PASSED_OVER in wait.message:
            overdue.add(pod.uid)
    for each in problems[:_MOST_LOGGED]:
        _log.warning(logs.STATE_UNREADABLE, object=f"{each.kind} {each.key}", field=each.field, error=each.message)
    running = [
        (pod, min(now, pod.started - behind))
        for pod in cluster.snapshot().pods
        if pod.started and pod.scheduler_name in scheduler_names
    ]
    starvation.restore(waiting, running, overdue)
