"""What the API answers from while this process leads."""

import asyncio
from functools import partial

from scheduler.api.api_server import SchedulerApi, Subjects
from scheduler.cluster import Cluster
from scheduler.components import Components
from scheduler.history.device_usage import DeviceUsage
from scheduler.settings import HistorySettings
from solver.domain import PodId


async def answer_callers(api: SchedulerApi | None, parts: Components, settings: HistorySettings) -> None:
    """Have the API, where there is one, answer about this leader until cancelled."""
    if api is None:
        return
    usage = DeviceUsage(settings.usage_hours)
    api.lead(Subjects(parts.history, usage, parts.queue))
    try:
        label_of = partial(_label, parts.cluster, settings.usage_label)
        await asyncio.gather(parts.history.run(), usage.run(parts.cluster.snapshot, label_of))
    finally:
        api.follow()


def _label(cluster: Cluster, key: str, pod: PodId) -> str:
    """Return the value of a pod's label, "" where it has none."""
    found = cluster.pod(pod) if key else None
    return dict(found.labels).get(key, "") if found is not None else ""
