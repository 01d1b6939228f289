"""
The pods of Workloads in the scheduling queue: made of what a Workload is now, and made anew where that changes.

What is to be told to the scheduling cycle is kept in order, and `flush` tells it in turns: a Workload may have
thousands of pods.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Unit
from scheduler.loop_turns import LoopTurns
from scheduler.placement_check.kueue_objects import KueueWorkload
from scheduler.placement_check.podset_pods import (
    MissingPartError,
    Part,
    WorkloadContext,
    WorkloadPods,
    expected_pods,
)
from scheduler.queue.memory_budget import CLAIM_BYTES, POD_BYTES, MemoryBudget
from solver.domain import Pod, PodId, Reason

_NOTHING: Final = WorkloadPods((), ())
_AT_ONCE: Final = 50
"""Pods of a unit that are given back at a time."""


class NoMemoryError(ValueError):
    """The pods of a Workload would take more memory than is left for pods that wait (`queue.maxWaitingMiB`)."""


class Feed(Protocol):
    """The scheduling cycle, as the check uses it."""

    def see(self, changes: Sequence[Change]) -> None:
        """Apply changes to the cluster cache, the queue and the worker's replica."""

    def give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        """Try those again that lost to a unit which takes nothing; with reasons its pods are decided again too."""


class _Queued(NamedTuple):
    """
    The pods of a Workload in the queue (none where they cannot be made), and what they were made of.

    `needs` are the bytes that pods would take which are kept out for want of memory.
    """

    made_of: tuple[object, ...]
    expected: WorkloadPods
    needs: int = 0


class _Returned(NamedTuple):
    """Part of a unit that takes nothing (`Feed.give_back`)."""

    unit: Unit
    pods: Mapping[PodId, Pod]
    reasons: Sequence[Reason]


class WorkloadQueue:
    """The expected pods of Workloads, by the Workload's key; what is told to the feed waits for `flush`."""

    def __init__(self, scheduler_names: frozenset[str]) -> None:
        self.feed: Feed | None = None
        self.memory: MemoryBudget | None = None
        self._untold: Final[deque[Change | _Returned]] = deque()
        self._scheduler_names: Final = scheduler_names
        self._queued: Final[dict[str, _Queued]] = {}

    def offer(self, workload: KueueWorkload, around: WorkloadContext) -> bool:
        """
        Have the pods of a Workload in the queue, made of what it is now; return whether it has pods of this scheduler.

        Raises MissingPartError and ValueError where they cannot be made: once, until something changes. Raises
        NoMemoryError each time as long as there is no memory for them.
        """
        updates = tuple(each.updates for each in workload.checks)
        priority = workload.priority, workload.has_pod_priority
        made_of = (workload.uid, workload.pod_sets, updates, priority)
        queued = self._queued.get(workload.key)
        if queued is not None and queued.made_of == made_of:
            if not queued.needs:
                return True
            self._reserve(workload, queued)  # before they are made
        else:
            self.leave(workload.key)
        try:
            expected = expected_pods(workload, around, self._scheduler_names)
        except (MissingPartError, ValueError) as error:
            missing = error.parts if isinstance(error, MissingPartError) else frozenset[Part]()
            self.leave(workload.key)
            self._queued[workload.key] = _Queued(made_of, _NOTHING._replace(parts=missing))
            raise
        if not expected.pods:
            return False
        needs = POD_BYTES * len(expected.pods) + CLAIM_BYTES * len(expected.claims)
        self._reserve(workload, _Queued(made_of, _NOTHING._replace(parts=expected.parts), needs))
        self._queued[workload.key] = _Queued(made_of, expected)
        self._see(Kind.CLAIMS, {str(claim.id): claim for claim in expected.claims})
        self._see(Kind.PODS, {str(pod.id): pod for pod in expected.pods})
        return True

    def leave(self, key: str) -> None:
        """Take the pods of a Workload out of the queue."""
        queued = self._queued.pop(key, None)
        if queued is not None:
            if self.memory is not None:
                self.memory.give_up(key)
            self._see(Kind.PODS, dict.fromkeys(str(pod.id) for pod in queued.expected.pods))
            self._see(Kind.CLAIMS, dict.fromkeys(str(claim.id) for claim in queued.expected.claims))

    def keep_out(self, key: str) -> None:
        """Take the pods of a Workload out of the queue until something changes that they are made of."""
        queued = self._queued.get(key)
        if queued is not None:
            self.leave(key)
            self._queued[key] = _Queued(queued.made_of, _NOTHING._replace(parts=queued.expected.parts))

    def see_part(self, part: Part) -> Iterator[str]:
        """Have the pods made anew of Workloads that name something which has come, changed or gone; name these."""
        for key, queued in tuple(self._queued.items()):
            if part in queued.expected.parts:
                self._queued[key] = queued._replace(made_of=())
                yield key

    def is_first(self, key: str, pod: Pod) -> bool:
        """Whether a pod is the first that is expected of a Workload."""
        queued = self._queued.get(key)
        return queued is not None and bool(queued.expected.pods) and queued.expected.pods[0].uid == pod.uid

    def is_whole(self, key: str, unit: Unit, pods: Mapping[PodId, Pod]) -> bool:
        """Whether a unit places the pods that are expected now: those of a decision may be of an earlier time."""
        queued = self._queued.get(key)
        expected = queued.expected.pods if queued is not None else ()
        return len(expected) == len(unit.placements) and all(pods.get(each.id) == each for each in expected)

    def give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        """Try those again that lost to a unit which takes nothing; with reasons its pods are decided again too."""
        allocations = {each.claim: each for each in unit.allocations}
        for first in range(0, len(unit.placements), _AT_ONCE):
            placements = unit.placements[first : first + _AT_ONCE]
            own = (allocations.pop(claim, None) for placement in placements for claim in placement.claims)
            part = replace(unit, placements=placements, allocations=tuple(each for each in own if each is not None))
            self._untold.append(_Returned(part, pods, reasons))

    async def flush(self, turns: LoopTurns) -> None:
        """Tell the feed what has changed, in turns."""
        while self._untold and self.feed is not None:
            await turns.pause()
            told = self._untold.popleft()
            if isinstance(told, Change):
                self.feed.see((told,))
            else:
                self.feed.give_back(*told)

    def _reserve(self, workload: KueueWorkload, without: _Queued) -> None:
        """Keep memory for the pods of a Workload. Raise NoMemoryError, and remember what it is `without` them."""
        if self.memory is None or self.memory.take(workload.key, workload.namespace, without.needs):
            return
        self._queued[workload.key] = without
        mib = without.needs / (1024 * 1024)
        raise NoMemoryError(f"its pods need {mib:.0f} MiB beside all others that wait: raise queue.maxWaitingMiB")

    def _see(self, kind: Kind, objects: Mapping[str, Object | None]) -> None:
        self._untold.extend(Change(kind=kind, key=key, value=value) for key, value in objects.items())
