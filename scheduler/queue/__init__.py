"""
Who waits and for what: pending pods, and the changes of the cluster that wake them.

Pure: no task and no clock; the time is passed in, in seconds of one monotonic clock. The cycle offers pods, takes
batches and puts back what was not placed. What a pod needs is not known here beyond the reasons it was given.

`pending` is the queue of batches. `aside` is that of decisions aside: `kin` says which pods cost the same, `credit`
what namespaces have used, `parking` which kin rest because a decision about them broke a limit.
"""

from scheduler.backoff import Backoff
from scheduler.queue.cluster_events import ClusterEvent, facts_of
from scheduler.queue.costly_pods import AsideQueue, Credit, Job, Parking, SpecKey, kin_of
from scheduler.queue.equivalence import Shapes
from scheduler.queue.gangs import Completing, Musters
from scheduler.queue.queued_pod import PodState
from scheduler.queue.scheduling_queue import Pending
from scheduler.queue.starvation import PassedOver

__all__ = [
    "AsideQueue",
    "Backoff",
    "ClusterEvent",
    "Completing",
    "Credit",
    "Job",
    "Musters",
    "Parking",
    "PassedOver",
    "Pending",
    "PodState",
    "Shapes",
    "SpecKey",
    "facts_of",
    "kin_of",
]
