"""A pod of the queue, and where it stands.

Which pods of the queue a claim concerns.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduler.queue.equivalence import EquivalenceClass, RetryGroup
from scheduler.queue.indexed_heap import DueTime, IndexedHeap, SortKey
from solver.domain import ClaimId, Pod, PodId, ReasonCode, VolumeClaimId


class PodState(StrEnum):
    """Where a pod of the queue stands."""

    ACTIVE = "active"
    BACKING_OFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    """Taken with a batch: it comes back with `put_back`, or leaves when the watch shows it bound or gone."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """
    A pod of the queue.

    `early` counts the times that it was taken before its claims existed. `not_before` ends its backoff, `taken` is the
    number that the batch had with which it was taken last, `missed` are the reasons that facts about its claims have
    woken since then, `is_changed` says that the pod itself has changed since, `is_due` that it need not rest when it
    comes back, and `is_parked` that it rests whatever happens. `is_told` says that it was decided about since its gang
    lacks members. `sweep_at` is when it is tried again although nothing woke it. `lines` are those that it stands in;
    `shape` is what makes it equal to others, as far as that is known, and `crowd` those of them with which it waits or
    is tried.
    """

    pod: Pod
    first_seen: float
    state: PodState = PodState.GATED
    attempts: int = 0
    early: int = 0
    not_before: float = 0.0
    codes: frozenset[ReasonCode] = frozenset()
    taken: int = 0
    missed: frozenset[ReasonCode] = frozenset()
    is_changed: bool = False
    is_due: bool = False
    is_parked: bool = False
    is_completing: bool = False
    is_told: bool = False
    sweep_at: float = 0.0
    lines: list[IndexedHeap[SortKey] | IndexedHeap[DueTime]] = field(default_factory=list)
    shape: EquivalenceClass | None = None
    crowd: RetryGroup | None = None

    @property
    def kind(self) -> object:
        """The same for pods that are known to be equal, and wait for the same."""
        return self.crowd or self

    @property
    def rank(self) -> SortKey:
        """Its place among all pods; who completes a gang that runs in part goes before all of the same priority."""
        return SortKey(-self.pod.priority, -math.inf if self.is_completing else self.first_seen, self.pod.id)


AnyClaim = ClaimId | VolumeClaimId
"""A claim for devices and one for a volume may have the same name."""


class Users:
    """Pods by the claims that they reference."""

    def __init__(self) -> None:
        self._users: Final[dict[AnyClaim, dict[PodId, None]]] = {}

    def of(self, claim: AnyClaim) -> tuple[PodId, ...]:
        """Give the pods that reference a claim, in the order in which they came."""
        return tuple(self._users.get(claim, ()))

    def enter(self, pod: Pod) -> None:
        """Note what a pod references."""
        for claim in _referenced(pod):
            self._users.setdefault(claim, {})[pod.id] = None

    def leave(self, pod: Pod) -> None:
        """Forget what a pod references, as it was entered."""
        for claim in _referenced(pod):
            users = self._users[claim]
            del users[pod.id]
            if not users:
                del self._users[claim]

    def change(self, before: Pod, after: Pod) -> None:
        """Note what a pod references now."""
        if _referenced(before) != _referenced(after):
            self.leave(before)
            self.enter(after)


def _referenced(pod: Pod) -> tuple[AnyClaim, ...]:
    return tuple(dict.fromkeys((*pod.claim_ids, *pod.volume_claims)))
