"""Moves pods of the scheduling queue for what happened in the cluster cache, and wakes the loop that decides them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Object
from scheduler.cluster import Cluster, Transition
from scheduler.cluster.holds.held_releases import ends_of, heirs
from scheduler.observe import logs
from scheduler.queue import SchedulingQueue
from solver.domain import DeviceHold, NodeReservation, Seat

MOST_AT_ONCE: Final = 512
"""Transitions that are followed in one step of the event loop: some ten milliseconds."""

_log: Final = logs.logger()


class QueueWaker:
    """Says that the queue may have pods to decide: `changed` is set whenever something moves some."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, clock: Callable[[], float]) -> None:
        self.changed: Final = asyncio.Event()
        self.subscribers: Final[list[Callable[[], object]]] = []
        """Called after each turn: something may have come free that others than pods in the queue wait for."""
        self._cluster: Final = cluster
        self._queue: Final = queue
        self._clock: Final = clock
        self._reserved: dict[str, NodeReservation] = {}
        """The reservations that the log has told of, by the uid of their first pod."""
        self._waiting: Final[deque[Transition | Seat]] = deque()
        """Transitions, and places that they have closed, whose turn comes after other tasks had theirs."""

    def wake(self, transitions: Sequence[Transition]) -> None:
        """
        Hint the pods whose reasons these transitions may have removed.

        One object may end what thousands of pods wait for, as a DeviceHold does: so many are followed in turns.
        """
        is_going_on = bool(self._waiting)
        for each in transitions:
            self._waiting.extend((each, *each.closed))
        if not is_going_on:
            self._go_on()

    def _go_on(self) -> None:
        try:
            followed = 0
            while self._waiting and followed < MOST_AT_ONCE:
                first = self._waiting.popleft()
                if isinstance(first, Seat):
                    self._waiting.extendleft(reversed(tuple(ends_of(first))))
                    continue
                followed += 1
                self._follow(first)
        finally:  # where one raises, the next ones have their turn all the same
            self.changed.set()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._go_on)
        for tell in self.subscribers:
            tell()

    def _follow(self, transition: Transition) -> None:
        if isinstance(transition.after, DeviceHold):
            self._room_held(transition.before, transition.after)
        if (told := self._cluster.told(transition)) is not None:
            self._queue.wake(told, heirs(self._cluster.store, self._cluster.holds, told))
        for pod in self._cluster.unblocked(transition):
            self._queue.victims_gone(pod, self._clock())
        if transition.conflict is not None:
            _log.warning(logs.UNIT_CONFLICT, key=transition.key, reasons=[transition.conflict.message])

    def _room_held(self, before: Object | None, after: DeviceHold) -> None:
        """Retry the pods that a hold is for when the watch shows it, which says its uid."""
        if not isinstance(before, DeviceHold) or before.uid != after.uid:
            self._queue.room_held(place.pods for place in after.open_places)

    def preemption_given_up(self, transitions: Sequence[Transition]) -> None:
        """Let other preemptors try the victims of a preemption that is given up."""
        self._queue.expect_victim(self._clock())
        self.wake(transitions)

    def reserved(self, reservations: Sequence[NodeReservation], *, is_released: bool) -> None:
        """Log which nodes are reserved for starving pods from now on; after a release hint pods that found one."""
        before, self._reserved = self._reserved, {each.uids[0]: each for each in reservations}
        for uid, each in self._reserved.items():
            if uid not in before or before[uid].nodes != each.nodes:
                _log.info(logs.NODE_RESERVED, pod=str(each.pod), pods=len(each.uids), nodes=list(each.nodes))
        for uid, each in before.items():
            if uid not in self._reserved:
                _log.info(logs.RESERVATION_ENDED, pod=str(each.pod), nodes=list(each.nodes))
        if is_released:
            self._queue.reservation_released()
            self.changed.set()
