"""
The most GPU-seconds that jobs can have had when the last one arrives, whatever schedules them and knows of them.

A job has no more than its work, nor than its GPUs can do between its arrival and the end. In any time the machines do
no more than all their GPUs can. So for each period: what jobs can do outside of it, and what the machines can do in it.
The least of these sums over periods is a bound (a cut of the flow of work from jobs to times); that jobs are not
divided, and need GPUs of one machine, is left out.
"""

from typing import Final

import numpy as np

from e2e.traces.queues.job_traces import JobTrace

_MOMENTS: Final = 100
"""Periods begin and end at so many moments."""


def most_used(trace: JobTrace) -> float | None:
    """Return the most that can be in use, as a part of all GPU-seconds; None where all jobs arrive at once."""
    if not trace.window:
        return None
    arrivals = np.array([job.arrival for job in trace.jobs])
    gpus, seconds = (np.array([getattr(job, name) for job in trace.jobs], dtype=float) for name in ("gpus", "seconds"))
    first, last = float(arrivals[0]), float(arrivals[-1])
    moments = np.linspace(first, last, _MOMENTS + 1)
    least = np.inf
    for begin in moments:
        for end in moments[moments >= begin]:
            inside = np.clip(end - np.maximum(arrivals, begin), 0.0, None)
            outside = float((gpus * np.minimum(seconds, last - arrivals - inside)).sum())
            least = min(least, outside + trace.machines * trace.gpus * (end - begin))
    return float(least) / (trace.machines * trace.gpus * trace.window)
