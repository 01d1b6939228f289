"""
Who waits and for what: pending pods, and the changes of the cluster that wake them.

Pure: no task and no clock; the time is passed in, in seconds of one monotonic clock. The cycle offers pods, takes
batches and puts back what was not placed. What a pod needs is not known here beyond the reasons it was given.
"""

from scheduler.queue.backoff import Backoff
from scheduler.queue.completing import Completing
from scheduler.queue.entry import State
from scheduler.queue.facts import Fact, facts_of
from scheduler.queue.musters import Musters
from scheduler.queue.passed_over import PassedOver
from scheduler.queue.pending import Pending
from scheduler.queue.shapes import Shapes

__all__ = ["Backoff", "Completing", "Fact", "Musters", "PassedOver", "Pending", "Shapes", "State", "facts_of"]
