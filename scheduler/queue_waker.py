"""Moves pods of the scheduling queue for what happened in the cluster cache, and wakes the loop that decides them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.change import Object
from scheduler.cluster import Cluster, Transition
from scheduler.observe import logs
from scheduler.queue import SchedulingQueue
from solver.domain import DeviceHold

_log: Final = logs.logger()


class QueueWaker:
    """Says that the queue may have pods to decide: `changed` is set whenever something moves some."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, clock: Callable[[], float]) -> None:
        self.changed: Final = asyncio.Event()
        self._cluster: Final = cluster
        self._queue: Final = queue
        self._clock: Final = clock

    def wake(self, transitions: Sequence[Transition]) -> None:
        """Hint the pods whose reasons these transitions may have removed."""
        for transition in transitions:
            if isinstance(transition.after, DeviceHold):
                self._room_held(transition.before, transition.after)
            if (told := self._cluster.told(transition)) is not None:
                self._queue.wake(told)
            for pod in self._cluster.unblocked(transition):
                self._queue.victims_gone(pod, self._clock())
            if transition.conflict is not None:
                _log.warning(logs.UNIT_CONFLICT, key=transition.key, reasons=[transition.conflict.message])
        self.changed.set()

    def _room_held(self, before: Object | None, after: DeviceHold) -> None:
        """Retry the pods that a hold is for when the watch shows it, which says its uid."""
        if not isinstance(before, DeviceHold) or before.uid != after.uid:
            self._queue.room_held({place.pods for place in after.open_places}, self._clock())

    def preemption_given_up(self, transitions: Sequence[Transition]) -> None:
        """Let other preemptors try the victims of a preemption that is given up."""
        self._queue.expect_victim(self._clock())
        self.wake(transitions)

    def reservation_released(self) -> None:
        """Hint the pods that found a node reserved for a starving pod."""
        self._queue.reservation_released()
        self.changed.set()
