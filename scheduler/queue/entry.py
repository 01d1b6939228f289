"""A pod of the queue, and where it stands."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.queue.crowds import Crowd, Shape
from scheduler.queue.line import Due, Line, Rank
from solver.domain import Pod, ReasonCode


class State(StrEnum):
    """Where a pod of the queue stands."""

    ACTIVE = "active"
    BACKING_OFF = "backoff"
    WAITING = "waiting"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    """Taken with a batch: it comes back with `put_back`, or leaves when the watch shows it bound or gone."""


@dataclass(slots=True, eq=False)
class Entry:
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
    state: State = State.GATED
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
    lines: list[Line[Rank] | Line[Due]] = field(default_factory=list)
    shape: Shape | None = None
    crowd: Crowd | None = None

    @property
    def kind(self) -> object:
        """The same for pods that are known to be equal, and wait for the same."""
        return self.crowd or self

    @property
    def rank(self) -> Rank:
        """Its place among all pods; who completes a gang that runs in part goes before all of the same priority."""
        return Rank(-self.pod.priority, -math.inf if self.is_completing else self.first_seen, self.pod.id)
