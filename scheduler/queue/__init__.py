"""
The scheduling queue, as kube-scheduler's: activeQ, backoffQ, unschedulable pods, and hints that move pods between them.

Pure: no task and no clock; the time is passed in, in seconds of one monotonic clock. The scheduling cycle offers pods,
takes batches, and puts back what was not placed. Of what a pod needs only the reasons of its last attempt are known.

    scheduling_queue     the queue as the cycle uses it
    queued_pod           a pod of the queue, its states, and the table of their transitions
    pod_queues           the state machine: moves pods between the queues by that table
    active_queue         activeQ: fair shares of namespaces, quotas of new and of retried pods
    backoff_queue        backoffQ: by the end of the backoff, and in the order of the queue
    unschedulable_pods   unschedulable pods by reason, and which of them were hinted
    room_hints           pods that are tried because of held room
    freed_resources      what events have freed and no pod has taken: for how many pods a hint is worth an attempt
    cluster_events       a change of an object → cluster events
    queueing_hints       cluster event × reason → which pods are hinted: a table
    equivalence          the key of pod equivalence, and retry groups of equal pods
    gangs                gangs of the queue, and pods that replace members
    preemption_delays    for how long evictions for pods have been held back, so that a node may come
    starvation           pods that are overtaken for too long, and the nodes reserved for them
    isolated_queue         pods whose decisions cost too much for a batch (`scheduler.isolated_lane`)
    memory_budget        which pending pods and unallocated claims are kept in memory
    indexed_heap         the heap under all of these
"""

from scheduler.backoff import Backoff
from scheduler.queue.cluster_events import events_of
from scheduler.queue.equivalence import EquivalenceKeys
from scheduler.queue.gangs import GangReplacements, QueuedGangs
from scheduler.queue.indexed_heap import in_queue_order
from scheduler.queue.isolated_queue import (
    CostlyBackoff,
    DecisionCostKey,
    DecisionTimeQuota,
    IsolatedJob,
    IsolatedQueue,
    cost_key,
)
from scheduler.queue.preemption_delays import PreemptionDelays
from scheduler.queue.queued_pod import PodState, QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.starvation import StarvationTracker

__all__ = [
    "Backoff",
    "CostlyBackoff",
    "DecisionCostKey",
    "DecisionTimeQuota",
    "EquivalenceKeys",
    "GangReplacements",
    "IsolatedJob",
    "IsolatedQueue",
    "PodState",
    "PreemptionDelays",
    "QueuedGangs",
    "QueuedPod",
    "SchedulingQueue",
    "StarvationTracker",
    "cost_key",
    "events_of",
    "in_queue_order",
]
