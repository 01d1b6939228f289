"""
Starvation: pods that others overtake, since when, and the nodes that are reserved for them.

A pod is overtaken when pods of its priority or a lower one are placed after it first failed for lack of room or
devices. When that was `queue.starvationSeconds` ago it is overdue: it is decided before younger pods of its priority,
and the solver may reserve nodes for it. A new leader restores this from the pods' conditions (`restore`), and reserves
nodes again before it gives them to other pods (`split_restored`). Times are seconds of the queue's clock.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from math import inf
from typing import Final

from msgspec import structs

from scheduler.queue.gangs import GangReplacements
from scheduler.queue.queueing_hints import DEVICES_TAKEN
from solver.domain import Batch, Gang, NodeReservation, Plan, Pod, PodId, Reason, ReasonCode

_ROOM: Final = frozenset(
    {
        ReasonCode.NODE_RESOURCES,
        ReasonCode.OUTRANKED,
        ReasonCode.BUDGET,
        ReasonCode.NODE_RESERVED,
        ReasonCode.ROOM_HELD,
        ReasonCode.GANG_UNPLACED,
    }
)
_Group = tuple[int, bool]
"""Priority, and whether room on nodes is lacking: pods that are overtaken by the same placements."""


class _Waiting:
    """
    A pod that could not be placed: since when, whether it lacked room on nodes, and when it was overtaken.

    `is_restored` says that this process has not decided it yet. `group` is set until it is overtaken.
    """

    __slots__ = ("first_failed", "group", "is_restored", "needs_room", "overtaken_at")

    def __init__(self, now: float) -> None:
        self.first_failed = now
        self.needs_room = False
        self.overtaken_at: float | None = None
        self.is_restored = False
        self.group: _Group | None = None


class _Starts:
    """
    When pods started, the latest first: the earliest start since a time, of a priority or a lower one.

    It is asked for earlier and earlier times. The starts since then are in a tree of minima over the first priorities
    (Fenwick, 1994), so that a start and a question take O(log priorities).
    """

    def __init__(self, latest_first: Sequence[tuple[float, Pod]]) -> None:
        self._rest: Final = deque(latest_first)
        self._priorities: Final = sorted({pod.priority for _, pod in latest_first})
        self._least: Final = [inf] * (len(self._priorities) + 1)

    def first_since(self, since: float, priority: int) -> float | None:
        """Return the earliest start since a time; None where there is none."""
        while self._rest and self._rest[0][0] >= since:
            self._add(*self._rest.popleft())
        position, least = bisect_right(self._priorities, priority), inf
        while position:
            least = min(least, self._least[position])
            position &= position - 1
        return least if least < inf else None

    def _add(self, at: float, pod: Pod) -> None:
        position = bisect_right(self._priorities, pod.priority)
        while position < len(self._least):
            self._least[position] = min(self._least[position], at)
            position += position & -position


class StarvationTracker:
    """Remembers waiting pods by uid, and the last placement of each priority: nothing here grows with time."""

    def __init__(self, seconds: float, replacements: GangReplacements | None = None) -> None:
        self._seconds: Final = seconds
        self._replacements: Final = replacements if replacements is not None else GangReplacements()
        self._waiting: Final[dict[str, _Waiting]] = {}
        self._placed: Final[dict[tuple[int, bool], float]] = {}
        """The last placements, by priority and whether the pod had claims, the latest at the end."""
        self._reservations: Final[dict[str, NodeReservation]] = {}
        self._reserved: Final[defaultdict[str, set[str]]] = defaultdict(set)
        """The keys of `_reservations` by the uid of each pod that they are for."""
        self._not_overtaken: Final[defaultdict[_Group, dict[str, _Waiting]]] = defaultdict(dict)

    @property
    def reservations(self) -> tuple[NodeReservation, ...]:
        """Reserved nodes; those of the pod that has waited longest come first."""
        return tuple(self._reservations.values())

    def restore(
        self,
        waiting: Iterable[tuple[Pod, float]],
        running: Iterable[tuple[Pod, float]],
        overdue: Collection[str] = (),
    ) -> None:
        """
        Restore what the process before knew: pods with the time of their first failure, and when others started.

        `overdue` are the uids of pods for which nodes were reserved.
        """
        latest_first = sorted(((at, pod) for pod, at in running), key=lambda each: -each[0])
        with_claims = [each for each in latest_first if each[1].claims]
        starts = {needs_room: _Starts(latest_first if needs_room else with_claims) for needs_room in (True, False)}
        for pod, since in sorted(waiting, key=lambda each: -each[1]):
            known = self._waiting[pod.uid] = _Waiting(since)
            known.needs_room, known.is_restored = not pod.claims, True
            first = starts[known.needs_room].first_since(since, pod.priority)
            known.overtaken_at = since if pod.uid in overdue else first
            self._file(pod, known)

    def split_restored(self, batch: Batch, now: float) -> tuple[Batch, ...]:
        """
        Split off pods that were overdue before this process began, with all of a higher priority; gangs stay whole.

        The nodes that were reserved for them are not known any more. They are reserved again before others are decided.
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
        Mark the overdue pods of a batch, and add the reserved nodes.

        With a pod of a gang as many others of it are overdue as it needs to run, and no more: a pod that joins a gang
        later does not inherit its wait. Pods that complete a gang which has lost members count as overdue too.
        """
        overdue = {pod.id for pod in batch.pods if self.is_overdue(pod, now)}
        members = batch.members()
        for gang in batch.gangs:
            overdue |= _needed_members(gang, [pod.id for pod in members.get(gang.id, ())], overdue)
        overdue |= self._replacements.replacements(batch, now)
        ids = tuple(pod.id for pod in batch.pods if pod.id in overdue)
        if not ids and not self._reservations:
            return batch
        return structs.replace(batch, overdue=ids, node_reservations=self.reservations)

    def decided(self, batch: Batch, plan: Plan, now: float) -> bool:
        """Note what a plan decided; return whether a node is no longer reserved."""
        pods = {pod.id: pod for pod in batch.pods}
        for unplaced in plan.unplaced:
            self._fail(pods[unplaced.pod], unplaced.reasons, now)
        self._place((pods[each.pod] for each in plan.placements), now)
        uids = {pod.uid for pod in batch.pods}
        before = {name for reservation in self._reservations.values() for name in reservation.nodes}
        rest = {
            uid: reservation for uid, reservation in self._reservations.items() if uids.isdisjoint(reservation.uids)
        }
        fresh = {reservation.uids[0]: reservation for reservation in plan.node_reservations}
        order = {
            **{uid: self._reservations[uid] for uid in self._reservations if uid in rest or uid in fresh},
            **rest,
            **fresh,
        }
        self._replace_reservations(order)
        return not before <= {name for reservation in self._reservations.values() for name in reservation.nodes}

    def forget(self, uid: str) -> bool:
        """Forget a pod that was bound or deleted; return whether nodes were reserved for it."""
        self._drop(uid)
        return self.release(uid)

    def has_nodes(self, uid: str) -> bool:
        """Whether nodes are reserved for a pod, alone or with its gang."""
        return uid in self._reserved

    def is_overdue(self, pod: Pod, now: float) -> bool:
        """Whether a pod was overtaken too long ago."""
        waiting = self._waiting.get(pod.uid)
        return waiting is not None and waiting.overtaken_at is not None and now - waiting.overtaken_at > self._seconds

    def release(self, uid: str) -> bool:
        """Release the nodes of a pod that cannot be placed for now; return whether there were any."""
        released = self._reserved.get(uid)
        if not released:
            return False
        self._replace_reservations({key: each for key, each in self._reservations.items() if key not in released})
        return True

    def _replace_reservations(self, reservations: Mapping[str, NodeReservation]) -> None:
        reservations = dict(reservations)
        self._reservations.clear()
        self._reservations.update(reservations)
        self._reserved.clear()
        for key, reservation in reservations.items():
            for uid in reservation.uids:
                self._reserved[uid].add(key)

    def _fail(self, pod: Pod, reasons: Collection[Reason], now: float) -> None:
        codes = {reason.code for reason in reasons}
        if codes & (_ROOM | DEVICES_TAKEN):
            waiting = self._waiting.setdefault(pod.uid, _Waiting(now))
            waiting.needs_room = not pod.claims or ReasonCode.NODE_RESOURCES in codes
            waiting.is_restored = False
            self._file(pod, waiting)
        elif self._is_restored(pod.uid):
            self._drop(pod.uid)  # its condition reported only that it waited

    def _is_restored(self, uid: str) -> bool:
        waiting = self._waiting.get(uid)
        return waiting is not None and waiting.is_restored

    def _drop(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None and waiting.group is not None:
            self._not_overtaken[waiting.group].pop(uid, None)

    def _file(self, pod: Pod, waiting: _Waiting) -> None:
        """
        Find the first placement that has overtaken a pod, or file the pod for the next one.

        A pod that is filed already was overtaken by none. Of the last placements, those after its first failure count.
        """
        if waiting.group == (pod.priority, waiting.needs_room):
            return
        if waiting.group is not None:
            self._not_overtaken[waiting.group].pop(pod.uid, None)
            waiting.group = None
        if waiting.overtaken_at is None:
            group = (pod.priority, waiting.needs_room)
            later = takewhile(lambda each: each[1] >= waiting.first_failed, reversed(self._placed.items()))
            waiting.overtaken_at = min((at for placed, at in later if _overtakes(placed, group)), default=None)
        if waiting.overtaken_at is None:
            waiting.group = (pod.priority, waiting.needs_room)
            self._not_overtaken[waiting.group][pod.uid] = waiting

    def _place(self, pods: Iterable[Pod], now: float) -> None:
        lowest: dict[bool, int] = {}
        for priority, has_claims in dict.fromkeys((pod.priority, bool(pod.claims)) for pod in pods):
            self._placed.pop((priority, has_claims), None)
            self._placed[priority, has_claims] = now
            lowest[has_claims] = min(priority, lowest.get(has_claims, priority))
        strongest = [(priority, has_claims) for has_claims, priority in lowest.items()]
        for group in [each for each in self._not_overtaken if any(_overtakes(placed, each) for placed in strongest)]:
            for waiting in self._not_overtaken.pop(group).values():
                waiting.overtaken_at, waiting.group = now, None


def _needed_members(gang: Gang, members: Sequence[PodId], overdue: Collection[PodId]) -> set[PodId]:
    """Return members of a gang that has overdue ones: as many of the others as are missing to its minimum."""
    mine = [each for each in members if each in overdue]
    if not mine:
        return set()
    missing = max(0, gang.min_count - gang.running_count - len(mine))
    return set([each for each in members if each not in overdue][:missing])


def _overtakes(placed: tuple[int, bool], group: _Group) -> bool:
    """Whether a placement, with or without claims, overtakes pods; without claims it takes room on nodes only."""
    priority, has_claims = placed
    return priority <= group[0] and (has_claims or group[1])
