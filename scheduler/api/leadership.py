"""What the API answers from while this process leads."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from scheduler.api.answer_threads import in_thread
from scheduler.api.api_server import SchedulerApi, Subjects
from scheduler.api.queue_answers import WaitingPods
from scheduler.cluster import Cluster
from scheduler.components import Components
from scheduler.history.device_usage import DeviceUsage, UsageSample
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.settings import Settings
from scheduler.worker.fleet_client import FleetClient
from solver.domain import PodId

_PAUSE_SECONDS: Final = 1.0


async def answer_callers(api: SchedulerApi | None, parts: Components, usage: DeviceUsage, settings: Settings) -> None:
    """Have the API, where there is one, answer about this leader until cancelled."""
    if api is None:
        return
    fleet = FleetClient(parts.worker, parts.cluster, settings)
    api.lead(Subjects(parts.history, usage, WaitingPods(parts.queue, parts.status), fleet))
    try:
        label_of = partial(_label, parts.cluster, settings.history.usage_label)
        sampling = partial(usage.run, partial(_sample, parts), label_of, in_thread)
        loops = (partial(parts.history.run, in_thread), sampling)
        await asyncio.gather(*(_repeated(each, parts.metrics) for each in loops))
    finally:
        api.follow()


def _sample(parts: Components) -> UsageSample:
    seen = parts.cluster.snapshot()
    return UsageSample(seen.claims, seen.slices, parts.fleet_counter.devices)


async def _repeated(loop: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
    """Run a loop for ever: where a defect ends it, it begins again, and the scheduler goes on."""
    while True:
        with Confined(metrics, Subsystem.API):
            await loop()
        await asyncio.sleep(_PAUSE_SECONDS)


def _label(cluster: Cluster, key: str, pod: PodId) -> str:
    """Return the value of a pod's label, "" where it has none."""
    found = cluster.pod(pod) if key else None
    return dict(found.labels).get(key, "") if found is not None else ""
