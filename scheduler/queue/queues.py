"""Where the pods of the queue stand, and how they move."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.queue.active_queue import FEWEST_NEW, FEWEST_RETRIED, ActiveQueue, AdaptiveQuotas, PopOrder
from scheduler.queue.equivalence import FIRST, MOST, EquivalenceClasses, RetryGroup, is_telling
from scheduler.queue.gangs import QueuedGangs
from scheduler.queue.indexed_heap import DueTime, IndexedHeap, SortKey
from scheduler.queue.queued_pod import PodState, QueuedPod
from scheduler.queue.queueing_hints import RETRIED
from scheduler.queue.unschedulable_pods import UnschedulablePods, enter
from solver.domain import PodId, ReasonCode

MOST_MOVES: Final = 2000
"""Pods that one call moves at most; the rest follows with the next calls, still in order."""
MOST_RIVALS: Final = 4
"""Resting pods that one batch takes along at most, half of them of one namespace."""
_MOST_LOOKED_AT: Final = 64
NEW_SHARE: Final = 4
"""Of so many pods of one priority that are taken, one is new where new ones wait behind retried ones."""


class Queues:
    """
    The pods and the lines in which they stand.

    `sweep_seconds` after it began to wait a pod is tried although nothing woke it; one whose gang lacks members comes
    up for that to be told after `muster_seconds`.
    """

    def __init__(self, musters: QueuedGangs, sweep_seconds: float, muster_seconds: float) -> None:
        self.entries: Final[dict[PodId, QueuedPod]] = {}
        self.counts: Final = dict.fromkeys(PodState, 0)
        self.waiting: Final = UnschedulablePods()
        self.crowds: Final = EquivalenceClasses()
        self._musters: Final = musters
        self._sweep_seconds: Final = sweep_seconds
        self._muster_seconds: Final = muster_seconds
        self._quotas: Final = (AdaptiveQuotas(FEWEST_NEW), AdaptiveQuotas(FEWEST_RETRIED))
        self._lanes: Final = ActiveQueue()
        self._turns: PopOrder | None = None
        self._resting: Final[IndexedHeap[DueTime]] = IndexedHeap()
        self._resting_by_rank: Final[IndexedHeap[SortKey]] = IndexedHeap()
        self._sweep: Final[IndexedHeap[DueTime]] = IndexedHeap()

    def due(self, now: float) -> float | None:
        """Give the time from which there may be a pod to take: now, later, or None where none is waited for."""
        self._tend(now)
        if self._lanes or self.waiting.has_woken():
            return now
        heads = [due.at for due in (self._resting.head(), self._sweep.head()) if due is not None]
        return max(now, min(heads)) if heads else None

    def advance(self, now: float) -> None:
        """Move pods whose time has come, and then woken ones, to where they belong; at most `MOST_MOVES`."""
        self._tend(now)
        moves = MOST_MOVES
        for line in (self._resting, self._sweep):
            while moves and (due := line.head()) is not None and due.at <= now:
                self.activate(self.entries[due.rank.pod], now, is_swept=line is self._sweep)
                moves -= 1
        while moves and (rank := self.waiting.first_woken()) is not None:
            self.activate(self.entries[rank.pod], now)
            moves -= 1

    def turns(self, limit: int) -> PopOrder:
        """Begin a batch of at most so many pods."""
        for quotas in self._quotas:
            quotas.adapt(limit)
        self._turns = self._lanes.turns(limit, self._quotas, self._turns)
        return self._turns

    def quotas(self, entry: QueuedPod) -> AdaptiveQuotas:
        """Give the quotas that a pod counts for: those of new pods or of retried ones."""
        return self._quotas[entry.attempts > 0]

    def next(self, turns: PopOrder, position: int) -> QueuedPod | None:
        """Choose the pod to take next: the first of all, or the first new one of the same priority in its turn."""
        new, retried = turns.first(is_retried=False), turns.first(is_retried=True)
        first = min((head for head in (new, retried) if head is not None), default=None)
        if first is None:
            return None
        is_turn = position % NEW_SHARE == NEW_SHARE - 1
        if is_turn and new is not None and new.negative_priority == first.negative_priority:
            first = new
        return self.entries[first.rank.pod]

    def take(self, entry: QueuedPod, number: int) -> QueuedPod:
        """Let a pod go with the batch of this number, and give it."""
        self._stand(entry, PodState.IN_FLIGHT)
        entry.shape = entry.shape or self.crowds.known(entry.pod)
        entry.taken, entry.missed, entry.is_changed, entry.is_due = number, frozenset(), False, False
        entry.is_parked = False
        return entry

    def activate(self, entry: QueuedPod, now: float, *, is_swept: bool = False) -> None:
        """Let a pod stand where it can be taken, or rest until its backoff is over, or wait at its gate."""
        pod = entry.pod.id
        if entry.pod.scheduling_gates:
            self._stand(entry, PodState.GATED)
        elif now < entry.not_before:
            self._stand(entry, PodState.BACKING_OFF)
            self._resting.add(pod, DueTime(entry.not_before, entry.rank))
            entry.lines.append(self._resting)
            enter(entry, self._resting_by_rank)
        elif not is_swept and self._musters.is_missing_some(entry.pod):
            entry.codes = frozenset({ReasonCode.GANG_INCOMPLETE})
            self.wait(entry, now, None if entry.is_told else self._muster_seconds)
        else:
            self._stand(entry, PodState.ACTIVE)
            enter(entry, self._lanes.line(entry.pod.id.namespace, is_retried=entry.attempts > 0))

    def wait(self, entry: QueuedPod, now: float, seconds: float | None = None) -> None:
        """Let a pod wait for what its reasons name, at most so long."""
        self._stand(entry, PodState.UNSCHEDULABLE)
        entry.sweep_at = now + (self._sweep_seconds if seconds is None else seconds)
        self._line_up(entry, is_ahead=self.join(entry))

    def leave(self, entry: QueuedPod) -> None:
        """Let a pod go for good."""
        self._step_out(entry)
        self._leave_crowd(entry)
        self.counts[entry.state] -= 1

    def has_more(self, entry: QueuedPod) -> bool:
        """Whether equals of a pod that is tried stand behind, of whom nobody knows yet whether they can be placed."""
        behind = entry.crowd.behind.head() if entry.crowd is not None else None
        return behind is not None and self._is_open(self.entries[behind.pod])

    def predecessor(self, entry: QueuedPod) -> QueuedPod | None:
        """Give the first equal that comes before a pod, stands behind in another crowd and may be placed as well."""
        others = entry.crowd.shape.crowds.values() if entry.crowd is not None else ()
        heads = (crowd.behind.head() for crowd in others)
        before = (self.entries[head.pod] for head in heads if head is not None and head < entry.rank)
        return min((each for each in before if self._is_open(each)), key=lambda each: each.rank, default=None)

    def rivals(self, taken: Sequence[QueuedPod]) -> list[QueuedPod]:
        """
        Give the first pods that come before one that is tried again, and rest although something came about for them.

        Without them what was freed goes to pods that were tried less often, and rest for a shorter time.
        """
        last = max((entry.rank for entry in taken if entry.attempts), default=None)
        lowest = min((entry.pod.priority for entry in taken), default=0)
        looked_at: list[QueuedPod] = []
        found: list[QueuedPod] = []
        namespaces = Counter[str]()
        while last is not None and len(looked_at) < _MOST_LOOKED_AT and len(found) < MOST_RIVALS:
            rank = self._resting_by_rank.head()
            if rank is None or rank > last:
                break
            entry = self.entries[rank.pod]
            self._resting_by_rank.discard(rank.pod)
            looked_at.append(entry)
            is_rival = self._is_rival(entry) and not (self.has_more(entry) and entry.pod.priority > lowest)
            if is_rival and namespaces[rank.pod.namespace] < MOST_RIVALS // 2:
                namespaces[rank.pod.namespace] += 1
                found.append(entry)
        for entry in looked_at:
            self._resting_by_rank.add(entry.pod.id, entry.rank)
        return found

    def _is_rival(self, entry: QueuedPod) -> bool:
        """Whether a pod that rests could be placed by now: something came about that it waits for."""
        if entry.is_parked or entry.codes & RETRIED or self._musters.is_missing_some(entry.pod):
            return False
        return self._is_open(entry) or any(self.waiting.last.get(code, 0) > entry.taken for code in entry.codes)

    def settle(self, entry: QueuedPod) -> None:
        """Take a pod that comes back out of its crowd, to which it may tell that there is nothing for anybody."""
        crowd = entry.crowd
        if crowd is not None and is_telling(entry.codes):
            self._tell(crowd, entry)
        self._leave_crowd(entry)

    def join(self, entry: QueuedPod) -> bool:
        """Let a pod join those that are equal and wait for the same; give whether it stands ahead."""
        entry.crowd = crowd = self.crowds.joined(entry.pod, entry.codes)
        entry.shape = crowd.shape if crowd is not None else None
        return crowd is None or self.crowds.place(crowd, entry.rank, is_tried=entry.state is not PodState.UNSCHEDULABLE)

    def placed(self, entry: QueuedPod) -> None:
        """Have the equals of a pod tried that was placed."""
        self._leave_crowd(entry)
        if entry.shape is not None:
            self.crowds.placed(entry.shape, entry.taken)
            entry.shape = None

    def compare(self, pods: Iterable[PodId]) -> None:
        """Let those of some pods stand for themselves that are not equal any more to others."""
        for pod in pods:
            entry = self.entries[pod]
            if entry.shape is not None and self.crowds.known(entry.pod) is not entry.shape:
                self.stand_apart(entry)

    def stand_apart(self, entry: QueuedPod) -> None:
        """Let a pod stand for itself, because it is or may be no longer equal to others; what has woken it counts."""
        if entry.state is PodState.UNSCHEDULABLE and entry.crowd is not None:
            is_woken = self._is_open(entry) or self.waiting.is_woken_singly(entry)
            entry.codes |= entry.crowd.told
            self._leave_crowd(entry)
            self._line_up(entry, is_ahead=True)
            if is_woken:
                self.waiting.wake_singly(entry)
        self._leave_crowd(entry)
        entry.shape = None

    def _tell(self, crowd: RetryGroup, entry: QueuedPod) -> None:
        """Let a crowd know at what one of it failed, which may by now be something else than what it waits for."""
        crowd.settled, crowd.quota = max(crowd.settled, entry.taken), FIRST
        told = entry.codes - crowd.codes
        if told != crowd.told:
            crowd.told = told
            for each in (self.entries[pod] for pod in crowd.ahead):
                if each.state is PodState.UNSCHEDULABLE:
                    self.waiting.enter(each, told)

    def _tend(self, now: float) -> None:
        """Bring up those behind where others have left, more of them where all were placed."""
        for crowd in self.crowds.untended():
            if crowd.is_growing:
                self._grow(crowd, now)
            while len(crowd.ahead) < crowd.quota and (rank := crowd.behind.head()) is not None:
                self._bring_up(self.entries[rank.pod], now)
            if len(crowd.ahead) > 2 * crowd.quota:
                self._shrink(crowd)

    def _grow(self, crowd: RetryGroup, now: float) -> None:
        crowd.is_growing = False
        if crowd.placed <= crowd.settled:
            return
        crowd.quota = min(2 * crowd.quota, MOST)
        for entry in [self.entries[pod] for pod in crowd.ahead]:
            if entry.state in {PodState.UNSCHEDULABLE, PodState.BACKING_OFF}:
                entry.not_before = now
                self.activate(entry, now)

    def _shrink(self, crowd: RetryGroup) -> None:
        waiting = [entry for pod in crowd.ahead if (entry := self.entries[pod]).state is PodState.UNSCHEDULABLE]
        waiting.sort(key=lambda entry: entry.rank)
        for entry in waiting[crowd.quota :]:
            if not self.waiting.is_woken_singly(entry):
                del crowd.ahead[entry.pod.id]
                self._line_up(entry, is_ahead=False)

    def _bring_up(self, entry: QueuedPod, now: float) -> None:
        if self._is_open(entry) or self.waiting.is_woken_singly(entry):
            self.activate(entry, now)
        elif entry.crowd is not None:
            self._line_up(entry, is_ahead=True)
            entry.crowd.ahead[entry.pod.id] = None

    def _is_open(self, entry: QueuedPod) -> bool:
        return entry.crowd is not None and entry.crowd.is_open(entry.taken, self.waiting.last)

    def _leave_crowd(self, entry: QueuedPod) -> None:
        if entry.crowd is not None:
            self.crowds.leave(entry.crowd, entry.pod.id)
            entry.crowd = None

    def _line_up(self, entry: QueuedPod, *, is_ahead: bool) -> None:
        """Let a pod that waits stand in the lines of its reasons, or behind its equals."""
        self._step_out(entry)
        if entry.crowd is not None and not is_ahead:
            enter(entry, entry.crowd.behind)
        else:
            self.waiting.enter(entry, entry.codes | (entry.crowd.told if entry.crowd is not None else frozenset()))
        self._sweep.add(entry.pod.id, DueTime(entry.sweep_at, entry.rank))
        entry.lines.append(self._sweep)

    def _stand(self, entry: QueuedPod, state: PodState) -> None:
        self._step_out(entry)
        if entry.crowd is not None:
            entry.crowd.ahead[entry.pod.id] = None
        self.counts[entry.state] -= 1
        self.counts[state] += 1
        entry.state = state

    def _step_out(self, entry: QueuedPod) -> None:
        for line in entry.lines:
            line.discard(entry.pod.id)
        entry.lines.clear()
