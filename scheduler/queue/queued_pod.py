"""
A pod of the scheduling queue: its states, the events that move it, and the table of transitions.

`TRANSITIONS` is the table of requested states. Only `pod_queues.PodQueues` moves a pod; its PreEnqueue may gate it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from scheduler.backoff import MOST_EARLY
from scheduler.queue.equivalence import EquivalenceClass, HintCause, PodTerms, RetryGroup
from scheduler.queue.indexed_heap import DueTime, IndexedHeap, SortKey
from scheduler.queue.queueing_hints import RETRIED
from solver.domain import Pod, PodId, ReasonCode


class PodState(StrEnum):
    """Where a pod of the queue is."""

    ACTIVE = "active"
    """In the activeQ: the next batches take it."""
    BACKING_OFF = "backoff"
    """In the backoffQ: it becomes active when its backoff ends."""
    UNSCHEDULABLE = "unschedulable"
    """Its last attempt failed, and only a cluster event can help; or its gang lacks members."""
    GATED = "gated"
    """It has scheduling gates (KEP-3521)."""
    IN_FLIGHT = "in-flight"
    """A batch has taken it: it is put back, or leaves the queue when the watch shows it bound or deleted."""


class QueueEvent(StrEnum):
    """What moves a pod from one state to another."""

    ADDED = "added"
    UPDATED = "updated"
    """The pod itself changed, in something that the scheduler does not write."""
    BACKOFF_ENDED = "backoff-ended"
    HINTED = "hinted"
    """A cluster event may have removed one of its reasons (see `queueing_hints`)."""
    FLUSHED = "flushed"
    """No event came for so long that it is retried anyway, as kube-scheduler's flushUnschedulablePodsLeftover."""
    EQUAL_PLACED = "equal-placed"
    """A pod of its equivalence class was placed, so that there may be room for this one too."""
    EQUAL_FAILED = "equal-failed"
    """A pod of its retry group failed since the last hint, so that this one would fail too."""
    HINT_SPENT = "hint-spent"
    """Other pods have taken what a cluster event freed, before this one was tried."""
    VICTIMS_GONE = "victims-gone"
    """The pods that were evicted for it have left."""
    GANG_CHANGED = "gang-changed"
    """Members of its gang are missing still, and not the same ones."""
    POPPED = "popped"
    """A batch takes it: as the next one, with its gang, or before an equal that is younger."""
    RETURNED = "returned"
    """The batch was not decided for it."""
    RETRIABLE = "retriable"
    """The attempt failed, and another one after the backoff may do better."""
    FAILED = "failed"
    """The attempt failed, and another one fails too until a cluster event helps."""


TRANSITIONS: Final[Mapping[tuple[PodState, QueueEvent], PodState]] = MappingProxyType(
    {
        (PodState.GATED, QueueEvent.ADDED): PodState.ACTIVE,
        (PodState.GATED, QueueEvent.UPDATED): PodState.ACTIVE,
        (PodState.ACTIVE, QueueEvent.UPDATED): PodState.ACTIVE,
        (PodState.ACTIVE, QueueEvent.POPPED): PodState.IN_FLIGHT,
        (PodState.ACTIVE, QueueEvent.EQUAL_FAILED): PodState.UNSCHEDULABLE,
        (PodState.ACTIVE, QueueEvent.HINT_SPENT): PodState.UNSCHEDULABLE,
        (PodState.BACKING_OFF, QueueEvent.UPDATED): PodState.ACTIVE,
        (PodState.BACKING_OFF, QueueEvent.BACKOFF_ENDED): PodState.ACTIVE,
        (PodState.BACKING_OFF, QueueEvent.EQUAL_PLACED): PodState.ACTIVE,
        (PodState.BACKING_OFF, QueueEvent.VICTIMS_GONE): PodState.ACTIVE,
        (PodState.BACKING_OFF, QueueEvent.POPPED): PodState.IN_FLIGHT,
        (PodState.UNSCHEDULABLE, QueueEvent.UPDATED): PodState.ACTIVE,
        (PodState.UNSCHEDULABLE, QueueEvent.HINTED): PodState.ACTIVE,
        (PodState.UNSCHEDULABLE, QueueEvent.FLUSHED): PodState.ACTIVE,
        (PodState.UNSCHEDULABLE, QueueEvent.EQUAL_PLACED): PodState.ACTIVE,
        (PodState.UNSCHEDULABLE, QueueEvent.GANG_CHANGED): PodState.ACTIVE,
        (PodState.UNSCHEDULABLE, QueueEvent.POPPED): PodState.IN_FLIGHT,
        (PodState.IN_FLIGHT, QueueEvent.RETURNED): PodState.ACTIVE,
        (PodState.IN_FLIGHT, QueueEvent.RETRIABLE): PodState.ACTIVE,
        (PodState.IN_FLIGHT, QueueEvent.FAILED): PodState.UNSCHEDULABLE,
    }
)
"""
The state that an event asks for; an event that is not named for a state leaves the pod where it is.

As kube-scheduler's PreEnqueue plugins do, `PodQueues` then holds back some pods: one with scheduling gates becomes
GATED, one that should be ACTIVE becomes BACKING_OFF while its backoff lasts, and UNSCHEDULABLE while its gang lacks
members (unless it was flushed: then a decision reports what is missing).
"""

ENDS_BACKOFF: Final = frozenset({QueueEvent.EQUAL_PLACED, QueueEvent.VICTIMS_GONE})
"""Events after which a pod is retried at once."""

_BY_HINT: Final = frozenset({QueueEvent.HINTED, QueueEvent.EQUAL_PLACED})
"""Events after which an unschedulable pod is retried as long as what was freed is left."""

_LEAVES_HINT: Final = frozenset({QueueEvent.BACKOFF_ENDED, QueueEvent.EQUAL_PLACED})
"""Events after which a pod is retried for what it would be retried for without them."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """
    A pod of the queue. Times are seconds of the queue's clock.

    `attempts` counts failed attempts, `early_attempts` those before its claims existed, which cost no backoff,
    `waits` decisions after which it waits for pods that leave. `growth_attempts` are the last attempts in a row for
    which nodes or devices were added, and `is_for_growth` says that the present one is such: the first ones do not
    count as `attempts`, because the devices of a new node come slice by slice.
    `not_before` ends its backoff. `reasons` are those of the last attempt. `batch` is the number of the batch that took
    it last. While the pod is in flight, events about itself, its claims or its victims may remove reasons: `cleared`
    holds these. `is_replacement` is set for a pod that completes a gang which runs in part. `is_reported` is set after
    a decision reported that its gang lacks members, until a member comes or leaves. `is_hinted` is set while a pod is
    retried for a hint and for nothing else. `is_hinted_alone` is set after an event about this pod and not its equals,
    until a batch takes it. `cause` is the hint after which a batch took it. `flush_at` is when an unschedulable pod is
    retried without a hint.

    `terms` are those of this version of `pod`. `equals` is its equivalence class, as far as others of it were tried,
    and `group` those of the class that failed for the same reasons. `heaps` are those that hold the pod now.
    """

    pod: Pod
    terms: PodTerms
    first_seen: float
    state: PodState = PodState.GATED
    attempts: int = 0
    early_attempts: int = 0
    growth_attempts: int = 0
    is_for_growth: bool = False
    waits: int = 0
    not_before: float = 0.0
    reasons: frozenset[ReasonCode] = frozenset()
    batch: int = 0
    cleared: frozenset[ReasonCode] = frozenset()
    is_replacement: bool = False
    is_reported: bool = False
    is_hinted: bool = False
    is_hinted_alone: bool = False
    cause: HintCause | None = None
    flush_at: float = 0.0
    equivalence_class: EquivalenceClass | None = None
    group: RetryGroup | None = None
    heaps: list[IndexedHeap[SortKey] | IndexedHeap[DueTime]] = field(default_factory=list)

    @property
    def kind(self) -> object:
        """The same object for pods that are known to be equal and have the same reasons."""
        return self.group or self

    @property
    def sort_key(self) -> SortKey:
        """Its place among all pods; one that completes a gang goes before all others of its priority."""
        return SortKey.of(self.pod, float("-inf") if self.is_replacement else self.first_seen)

    def fails_on_growth(self) -> bool:
        """Count a failed attempt that was made because the cluster grew; return whether it costs no backoff."""
        self.growth_attempts = self.growth_attempts + 1 if self.is_for_growth else 0
        return 0 < self.growth_attempts <= MOST_EARLY

    def enter(self, heap: IndexedHeap[SortKey]) -> None:
        """Join a heap that is sorted as the queue is."""
        heap.add(self.pod.id, self.sort_key)
        self.heaps.append(heap)


def is_hinted_after(queued: QueuedPod, event: QueueEvent) -> bool:
    """Whether a pod that an event moves is retried for a hint and for nothing else."""
    if queued.state is PodState.UNSCHEDULABLE:
        return event in _BY_HINT
    return queued.is_hinted and event in _LEAVES_HINT


def needs_no_backoff(queued: QueuedPod, *, has_lost: bool) -> bool:
    """
    Whether a pod is retried at once: its victims are gone, or it lost what there was to others, or to its equals.

    So is one that completes a gang which runs in part: during a backoff others would take what its predecessor freed.
    """
    if queued.reasons & RETRIED:
        return ReasonCode.PREEMPTING in queued.reasons & queued.cleared
    alike = queued.equivalence_class
    return has_lost or queued.is_replacement or (alike is not None and alike.placed_batch == queued.batch)


K = TypeVar("K")


class PodIdsByKey(Generic[K]):
    """The pods of the queue by something that they name, such as a claim or a gang; each in the order of arrival."""

    def __init__(self, keys_of: Callable[[Pod], Iterable[K]]) -> None:
        self._keys_of: Final = keys_of
        self._pods: Final[dict[K, dict[PodId, None]]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def keys(self) -> Collection[K]:
        """Return what pods name."""
        return self._pods.keys()

    def pods(self, key: K) -> tuple[PodId, ...]:
        """Return the pods that name a key."""
        return tuple(self._pods.get(key, ()))

    def add(self, pod: Pod) -> None:
        """Add a pod under each key that it names."""
        for key in self._keys_of(pod):
            self._pods.setdefault(key, {})[pod.id] = None

    def discard(self, pod: Pod) -> None:
        """Remove a pod as it was when it was added."""
        for key in self._keys_of(pod):
            pods = self._pods.get(key, {})
            pods.pop(pod.id, None)
            if not pods:
                self._pods.pop(key, None)

    def replace(self, before: Pod, after: Pod) -> None:
        """Note another version of a pod; one that names the same keys keeps its place."""
        if tuple(self._keys_of(before)) != tuple(self._keys_of(after)):
            self.discard(before)
            self.add(after)
