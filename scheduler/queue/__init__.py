"""
Who waits and for what: pending pods, and the changes of the cluster that wake them.

Pure: no task and no clock; the time is passed in, in seconds of one monotonic clock. The cycle offers pods, takes
batches and puts back what was not placed. What a pod needs is not known here beyond the reasons it was given.

`pending` is the queue of batches. `aside` is that of decisions aside: `kin` says which pods cost the same, `credit`
what namespaces have used, `parking` which kin rest because a decision about them broke a limit.
"""

from scheduler.queue.aside import AsideQueue, Job
from scheduler.queue.backoff import Backoff
from scheduler.queue.completing import Completing
from scheduler.queue.credit import Credit
from scheduler.queue.entry import State
from scheduler.queue.facts import Fact, facts_of
from scheduler.queue.kin import Kin, kin_of
from scheduler.queue.musters import Musters
from scheduler.queue.parking import Parking
from scheduler.queue.passed_over import PassedOver
from scheduler.queue.pending import Pending
from scheduler.queue.shapes import Shapes

__all__ = [
    "AsideQueue",
    "Backoff",
    "Completing",
    "Credit",
    "Fact",
    "Job",
    "Kin",
    "Musters",
    "Parking",
    "PassedOver",
    "Pending",
    "Shapes",
    "State",
    "facts_of",
    "kin_of",
]
