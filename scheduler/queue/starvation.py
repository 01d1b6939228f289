"""
Who is passed over, since when, and which nodes are held for whom.

A pod is passed over from the moment on when others of its priority or a lower one are placed after it first could not
be for lack of room or devices. After so many seconds it is overdue: a level above younger pods, and the solver may hold
nodes for it. A new leader is told what pods' conditions say of this (`recall`), and holds nodes anew before it gives
them away (`divided`). Times are seconds of the queue's clock.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import structs

from scheduler.queue.gangs import GangReplacements
from solver.domain import Batch, Gang, Hold, Plan, Pod, PodId, Reason, ReasonCode

_ROOM: Final = frozenset(
    {ReasonCode.NODE_RESOURCES, ReasonCode.OUTRANKED, ReasonCode.BUDGET, ReasonCode.NODE_HELD, ReasonCode.GANG_UNPLACED}
)
_DEVICES: Final = frozenset(
    {
        ReasonCode.DEVICES_IN_USE,
        ReasonCode.DEVICES_CAPACITY,
        ReasonCode.DEVICES_COUNTERS,
        ReasonCode.DEVICES_CONSTRAINT,
    }
)
"""Devices that match exist, and others have them."""


_Group = tuple[int, bool]
"""Priority, and whether room is lacking: pods that the same placements get ahead of."""


class _Waiting:
    """
    A pod that could not be placed: since when, whether it lacked room, and when others got ahead of it.

    `is_restored` says that this process has not decided about it yet. `group` is where it is found by the first that
    gets ahead of it.
    """

    __slots__ = ("first_failed", "group", "is_restored", "needs_room", "passed_since")

    def __init__(self, now: float) -> None:
        self.first_failed = now
        self.needs_room = False
        self.passed_since: float | None = None
        self.is_restored = False
        self.group: _Group | None = None


class StarvationTracker:
    """Remembers waiting pods by uid, and the last placements by priority: nothing here grows with time."""

    def __init__(self, seconds: float, replacements: GangReplacements | None = None) -> None:
        self._seconds: Final = seconds
        self._replacements: Final = replacements if replacements is not None else GangReplacements()
        self._waiting: Final[dict[str, _Waiting]] = {}
        self._placed: Final[dict[tuple[int, bool], float]] = {}
        self._holds: Final[dict[str, Hold]] = {}
        self._unpassed: Final[defaultdict[_Group, dict[str, _Waiting]]] = defaultdict(dict)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Nodes that are held, for the pod first that has waited longest."""
        return tuple(self._holds.values())

    def restore(
        self,
        waiting: Iterable[tuple[Pod, float]],
        running: Iterable[tuple[Pod, float]],
        overdue: Collection[str] = (),
    ) -> None:
        """
        Take over from a process before: pods with when they first found no room, and others with when they began.

        `overdue` are the uids of those for which nodes were held.
        """
        begun: defaultdict[tuple[int, bool], list[float]] = defaultdict(list)
        for pod, at in running:
            begun[pod.priority, bool(pod.claims)].append(at)
        for times in begun.values():
            times.sort()
        for pod, since in waiting:
            known = self._waiting[pod.uid] = _Waiting(since)
            known.needs_room, known.is_restored = not pod.claims, True
            later = [
                times[bisect_left(times, since)]
                for (priority, has_claims), times in begun.items()
                if priority <= pod.priority and times[-1] >= since and (has_claims or known.needs_room)
            ]
            known.passed_since = since if pod.uid in overdue else min(later, default=None)
            self._sort_in(pod, known)

    def split_restored(self, batch: Batch, now: float) -> tuple[Batch, ...]:
        """
        Split off who was overdue before this process began, with all who are more important; gangs stay whole.

        What was held for them is not known any more: it is held anew before the others are decided about.
        """
        restored = {pod.id for pod in batch.pods if self._is_restored(pod.uid) and self.is_overdue(pod, now)}
        if not restored:
            return (batch,)
        least = min(pod.priority for pod in batch.pods if pod.id in restored)
        before = [pod for pod in batch.pods if pod.id in restored or pod.priority > least]
        gangs = {pod.gang for pod in before if pod.gang is not None}
        first = {pod.id for pod in before} | {pod.id for pod in batch.pods if pod.gang in gangs}
        rest = batch.without(first)
        return (batch.without({pod.id for pod in rest.pods}), rest) if rest.pods else (batch,)

    def marked(self, batch: Batch, now: float) -> Batch:
        """
        Say of a batch who is overdue and what is held.

        With a pod of a gang others of it are overdue that it needs to run, and no more: who joins a gang that waits
        does not inherit its wait. So are pods that complete a gang which was placed and has lost members.
        """
        overdue = {pod.id for pod in batch.pods if self.is_overdue(pod, now)}
        for gang in batch.gangs:
            overdue |= _with_needed(gang, [pod.id for pod in batch.pods if pod.gang == gang.id], overdue)
        overdue |= self._replacements.replacements(batch, now)
        ids = tuple(pod.id for pod in batch.pods if pod.id in overdue)
        if not ids and not self._holds:
            return batch
        return structs.replace(batch, overdue=ids, holds=self.holds)

    def decided(self, batch: Batch, plan: Plan, now: float) -> bool:
        """Take note of a plan; give whether a node is no longer held."""
        pods = {pod.id: pod for pod in batch.pods}
        for unplaced in plan.unplaced:
            self._fail(pods[unplaced.pod], unplaced.reasons, now)
        self._place((pods[each.pod] for each in plan.placements), now)
        uids = {pod.uid for pod in batch.pods}
        before = {name for hold in self._holds.values() for name in hold.nodes}
        kept = {uid: hold for uid, hold in self._holds.items() if uids.isdisjoint(hold.uids)}
        fresh = {hold.uids[0]: hold for hold in plan.holds}
        order = {**{uid: self._holds[uid] for uid in self._holds if uid in kept or uid in fresh}, **kept, **fresh}
        self._holds.clear()
        self._holds.update(order)
        return not before <= {name for hold in self._holds.values() for name in hold.nodes}

    def forget(self, uid: str) -> bool:
        """Forget a pod that was bound or is not there any more; give whether nodes were held for it."""
        self._drop(uid)
        return self.release(uid)

    def has_nodes(self, uid: str) -> bool:
        """Whether nodes are held for a pod, alone or with its gang."""
        return any(uid in hold.uids for hold in self._holds.values())

    def is_overdue(self, pod: Pod, now: float) -> bool:
        """Whether others have been placed before a pod for so long."""
        waiting = self._waiting.get(pod.uid)
        return waiting is not None and waiting.passed_since is not None and now - waiting.passed_since > self._seconds

    def release(self, uid: str) -> bool:
        """Hold no node for a pod any more, which cannot be placed for now; give whether one was held."""
        released = [first for first, hold in self._holds.items() if uid in hold.uids]
        for first in released:
            del self._holds[first]
        return bool(released)

    def _fail(self, pod: Pod, reasons: Collection[Reason], now: float) -> None:
        codes = {reason.code for reason in reasons}
        if codes & (_ROOM | _DEVICES):
            waiting = self._waiting.setdefault(pod.uid, _Waiting(now))
            waiting.needs_room = not pod.claims or ReasonCode.NODE_RESOURCES in codes
            waiting.is_restored = False
            self._sort_in(pod, waiting)
        elif self._is_restored(pod.uid):
            self._drop(pod.uid)  # its condition said no more than that it waited

    def _is_restored(self, uid: str) -> bool:
        waiting = self._waiting.get(uid)
        return waiting is not None and waiting.is_restored

    def _drop(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and waiting.group is not None:
            self._unpassed[waiting.group].pop(uid, None)

    def _sort_in(self, pod: Pod, waiting: _Waiting) -> None:
        """Have a pod found by the next that gets ahead of it, if none has yet: whether it is tried again or not."""
        if waiting.group is not None:
            self._unpassed[waiting.group].pop(pod.uid, None)
            waiting.group = None
        if waiting.passed_since is None:
            group = (pod.priority, waiting.needs_room)
            times = (at for placed, at in self._placed.items() if _is_ahead(placed, group))
            waiting.passed_since = min((at for at in times if at >= waiting.first_failed), default=None)
        if waiting.passed_since is None:
            waiting.group = (pod.priority, waiting.needs_room)
            self._unpassed[waiting.group][pod.uid] = waiting

    def _place(self, pods: Iterable[Pod], now: float) -> None:
        for placed in {(pod.priority, bool(pod.claims)) for pod in pods}:
            self._placed[placed] = now
            for group in [group for group in self._unpassed if _is_ahead(placed, group)]:
                for waiting in self._unpassed.pop(group).values():
                    waiting.passed_since, waiting.group = now, None


def _with_needed(gang: Gang, members: Sequence[PodId], overdue: Collection[PodId]) -> set[PodId]:
    """Give members of a gang that are overdue with those of them that are: as many as are missing to its minimum."""
    mine = [each for each in members if each in overdue]
    if not mine:
        return set()
    missing = max(0, gang.min_count - gang.running_count - len(mine))
    return set([each for each in members if each not in overdue][:missing])


def _is_ahead(placed: tuple[int, bool], group: _Group) -> bool:
    """Whether pods of a priority, with or without claims, get ahead of others; without only of who lacks room."""
    priority, has_claims = placed
    return priority <= group[0] and (has_claims or group[1])
