"""What the API answers from while this process leads."""

import asyncio
from functools import partial

from scheduler.api.answer_threads import in_thread
from scheduler.api.api_server import SchedulerApi, Subjects
from scheduler.api.queue_answers import WaitingPods
from scheduler.api.server_thread import SchedulingLoop
from scheduler.cluster import Cluster
from scheduler.components import Components
from scheduler.history.device_usage import DeviceUsage, UsageSample
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import kept_running
from scheduler.settings import Settings
from scheduler.worker.fleet_client import FleetClient
from solver.domain import PodId


async def answer_callers(api: SchedulerApi | None, parts: Components, usage: DeviceUsage, settings: Settings) -> None:
    """Have the API, where there is one, answer about this leader until cancelled."""
    if api is None:
        return
    loop, fleet = SchedulingLoop(), FleetClient(parts.worker, parts.cluster, settings)
    api.lead(Subjects(parts.history, usage, WaitingPods(parts.queue, parts.status, loop), fleet, loop))
    try:
        label_of = partial(_label, parts.cluster, settings.history.usage_label)
        sampling = partial(usage.run, partial(_sample, parts), label_of, in_thread)
        loops = (partial(parts.history.run, in_thread), sampling)
        await asyncio.gather(*(kept_running(each, parts.metrics, Subsystem.API) for each in loops))
    finally:
        api.follow()


def _sample(parts: Components) -> UsageSample:
    seen = parts.cluster.snapshot()
    return UsageSample(seen.claims, seen.slices, parts.fleet_counter.devices)


def _label(cluster: Cluster, key: str, pod: PodId) -> str:
    """Return the value of a pod's label, "" where it has none."""
    found = cluster.pod(pod) if key else None
    return dict(found.labels).get(key, "") if found is not None else ""
