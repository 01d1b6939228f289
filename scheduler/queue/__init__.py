"""
Who waits and for what: pending pods, and the changes of the cluster that wake them.

Pure: no task and no clock; the time is passed in, in seconds of one monotonic clock. The cycle offers pods, takes
batches and puts back what was not placed. What a pod needs is not known here beyond the reasons it was given.

`pending` is the queue of batches. `aside` is that of decisions aside: `kin` says which pods cost the same, `credit`
what namespaces have used, `parking` which kin rest because a decision about them broke a limit.
"""

from scheduler.backoff import Backoff
from scheduler.queue.cluster_events import ClusterEvent, events_of
from scheduler.queue.costly_queue import CostKey, CostlyBackoff, CostlyJob, CostlyQueue, DecisionTimeQuota, cost_key
from scheduler.queue.equivalence import EquivalenceKeys
from scheduler.queue.gangs import GangReplacements, QueuedGangs
from scheduler.queue.queued_pod import PodState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.starvation import StarvationTracker

__all__ = [
    "Backoff",
    "ClusterEvent",
    "CostKey",
    "CostlyBackoff",
    "CostlyJob",
    "CostlyQueue",
    "DecisionTimeQuota",
    "EquivalenceKeys",
    "GangReplacements",
    "PodState",
    "QueuedGangs",
    "SchedulingQueue",
    "StarvationTracker",
    "cost_key",
    "events_of",
]
