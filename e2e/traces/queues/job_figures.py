"""What one policy made of one trace: waits by size of job, GPUs in use, makespan."""

from collections.abc import Mapping
from statistics import fmean
from typing import Final

import msgspec
import numpy as np

from e2e.traces.queues import job_bound
from e2e.traces.queues.job_simulation import Outcome
from e2e.traces.queues.job_traces import JobTrace

SIZES: Final[Mapping[str, range]] = {
    "1": range(1, 2),
    "2-4": range(2, 5),
    "5-7": range(5, 8),
    "8+": range(8, 1 << 30),
}
"""Classes of jobs by their GPUs."""


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs of one size waited, in seconds; `jobs` counts those that started."""

    jobs: int
    mean: float
    p95: float


class QueueRun(msgspec.Struct, frozen=True, kw_only=True):
    """
    One policy over one trace.

    `waits` has the sizes that occur. `used` is the share of all GPU-seconds in which jobs ran, from the first arrival
    to the last, `most_used` the most that is possible (`job_bound`); both are None where all arrive at once.
    `makespan` is the time from the first arrival to the last end.
    `too_large` jobs ask for more than the cluster has and are left out, `stuck` ones never got all their GPUs.
    `seconds` are CPU seconds of the whole run. `moves` counts pods that were moved; what that cost their jobs is in the
    makespan and in the waits of others, and no GPU counts as used meanwhile.
    """

    trace: str
    policy: str
    machines: int
    gpus: int
    load: float | None
    jobs: int
    too_large: int
    stuck: int
    waits: dict[str, Waits]
    used: float | None
    most_used: float | None = None
    makespan: float
    seconds: float = 0.0
    moves: int = 0


def figures(trace: JobTrace, policy: str, outcome: Outcome, seconds: float = 0.0) -> QueueRun:
    """Measure what a simulation came to."""
    started = [job for job in trace.jobs if job.number in outcome.starts]
    first, last = trace.jobs[0].arrival, trace.jobs[-1].arrival
    waits, used, end = {}, 0.0, first
    for name, sizes in SIZES.items():
        own = [outcome.starts[job.number] - job.arrival for job in started if job.gpus in sizes]
        if own:
            waits[name] = Waits(jobs=len(own), mean=fmean(own), p95=float(np.percentile(own, 95)))
    for job in started:
        begin = outcome.starts[job.number]
        end = max(end, begin + job.seconds + outcome.delays.get(job.number, 0.0))
        used += job.gpus * max(0.0, min(begin + job.seconds, last) - begin)
    return QueueRun(
        trace=trace.name,
        policy=policy,
        machines=trace.machines,
        gpus=trace.gpus,
        load=trace.load,
        jobs=len(trace.jobs),
        too_large=len(outcome.too_large),
        stuck=len(trace.jobs) - len(outcome.too_large) - len(started),
        waits=waits,
        used=used / (trace.machines * trace.gpus * trace.window) if trace.window else None,
        most_used=job_bound.most_used(trace),
        makespan=end - first,
        seconds=seconds,
        moves=outcome.moves,
    )
