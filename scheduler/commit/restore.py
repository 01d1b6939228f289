"""
What a scheduler that begins learns of the one before it: since when pods wait, and who got ahead of them.

Pods' conditions say since when they find no room and whether nodes were held for them, and pods that run when they
began. Pods that got ahead and have ended since are not known any more, so that a wait counts too short rather than too
long.
"""

import datetime as dt
import time
from collections.abc import Callable, Collection
from typing import Final

from scheduler.change import Kind
from scheduler.cluster import Cluster
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.observe import logs
from scheduler.queue import StarvationTracker
from scheduler.status.conditions import ConditionReason
from scheduler.status.reports import Reports
from solver.domain import PASSED_OVER

_FOR_ROOM: Final = frozenset(
    {ConditionReason.UNSCHEDULABLE, ConditionReason.WAITING_FOR_ROOM, ConditionReason.NODE_HELD}
)
"""Reasons that a pod which lacks room or devices may have read."""


_log: Final = logs.logger()


async def recall(
    client: Client,
    cluster: Cluster,
    told: tuple[StarvationTracker, Reports],
    scheduler_names: Collection[str],
    *,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """
    Hand on what the pods of these schedulers say; to be called once, before the first decision.

    `clock` is the queue's, `wall_clock` gives seconds since the epoch. Where the pods cannot be listed, it is logged
    and waits are counted from now on.
    """
    try:
        waits = await writes.read(client)
    except KubeError as error:
        _log.warning(logs.WATCH_FAILED, kind=Kind.PODS, error=str(error))
        waits = ()
    starvation, reports = told
    behind = wall_clock() - clock()
    waiting, overdue = [], set()
    for wait in waits:
        pod = cluster.seen_pod(wait.pod)
        if pod is None or pod.uid != wait.uid or pod.node_name or pod.scheduler_name not in scheduler_names:
            continue
        reports.recall(pod.uid, wait.since.astimezone(dt.UTC))
        if wait.reason in _FOR_ROOM:
            waiting.append((pod, wait.since.timestamp() - behind))
        if PASSED_OVER in wait.message:
            overdue.add(pod.uid)
    running = [
        (pod, pod.started - behind)
        for pod in cluster.snapshot().pods
        if pod.started and pod.scheduler_name in scheduler_names
    ]
    starvation.restore(waiting, running, overdue)
