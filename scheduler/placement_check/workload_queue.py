"""The pods of Workloads in the scheduling queue: made of what a Workload is now, and made anew where that changes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Unit
from scheduler.placement_check.kueue_objects import KueueWorkload
from scheduler.placement_check.podset_pods import (
    MissingPartError,
    Part,
    WorkloadContext,
    WorkloadPods,
    expected_pods,
)
from solver.domain import Pod, PodId, Reason

_NOTHING: Final = WorkloadPods((), ())


class Feed(Protocol):
    """The scheduling cycle, as the check uses it."""

    def see(self, changes: Sequence[Change]) -> None:
        """Apply changes to the cluster cache, the queue and the worker's replica."""

    def give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        """Try those again that lost to a unit which takes nothing; with reasons its pods are decided again too."""


class _Queued(NamedTuple):
    """The pods of a Workload in the queue (none where they cannot be made), and what they were made of."""

    made_of: tuple[object, ...]
    expected: WorkloadPods


class WorkloadQueue:
    """The expected pods of Workloads, by the Workload's key; without a feed nothing is in the queue."""

    def __init__(self, scheduler_names: frozenset[str]) -> None:
        self.feed: Feed | None = None
        self._scheduler_names: Final = scheduler_names
        self._queued: Final[dict[str, _Queued]] = {}

    def offer(self, workload: KueueWorkload, around: WorkloadContext, replaced: KueueWorkload | None) -> bool:
        """
        Have the pods of a Workload in the queue, made of what it is now; return whether it has pods of this scheduler.

        Raises MissingPartError and ValueError where they cannot be made: once, until something changes.
        """
        updates = tuple(each.updates for each in workload.checks)
        priority = workload.priority, workload.has_pod_priority
        running = replaced.pod_sets if replaced is not None else ()
        made_of = (workload.uid, workload.pod_sets, running, updates, priority)
        queued = self._queued.get(workload.key)
        if queued is not None and queued.made_of == made_of:
            return True
        self.leave(workload.key)
        try:
            expected = expected_pods(workload, around, self._scheduler_names, replaced)
        except (MissingPartError, ValueError) as error:
            missing = error.parts if isinstance(error, MissingPartError) else frozenset[Part]()
            self._queued[workload.key] = _Queued(made_of, _NOTHING._replace(parts=missing))
            raise
        if not expected.pods:
            return False
        self._queued[workload.key] = _Queued(made_of, expected)
        self._see(Kind.CLAIMS, {str(claim.id): claim for claim in expected.claims})
        self._see(Kind.PODS, {str(pod.id): pod for pod in expected.pods})
        return True

    def leave(self, key: str) -> None:
        """Take the pods of a Workload out of the queue."""
        queued = self._queued.pop(key, None)
        if queued is not None:
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

    def _see(self, kind: Kind, objects: Mapping[str, Object | None]) -> None:
        if self.feed is not None and objects:
            self.feed.see([Change(kind=kind, key=key, value=value) for key, value in objects.items()])
