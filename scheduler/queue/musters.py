"""Who of a gang stands in the queue, and whether enough members exist for it to be decided."""

from collections.abc import Callable
from typing import Final

from scheduler.cluster.gangs import Standing
from scheduler.queue.completing import Completing
from solver.domain import GangId, Pod, PodId

Stand = Callable[[GangId], Standing]
"""Says how far a gang is from being decidable."""
COMPLETE: Final = Standing(missing=0, is_partial=False)


class Musters:
    """Pods of the queue by gang. Whoever knows all members, those that run too, is asked how a gang stands."""

    def __init__(self, stand: Stand = lambda _: COMPLETE, completing: Completing | None = None) -> None:
        self._stand: Final = stand
        self._completing: Final = completing if completing is not None else Completing()
        self._members: Final[dict[GangId, dict[PodId, None]]] = {}

    def enter(self, pod: Pod) -> None:
        """Count a pod that came into the queue."""
        if pod.gang is not None:
            self._members.setdefault(pod.gang, {})[pod.id] = None

    def leave(self, pod: Pod) -> None:
        """Count a pod out."""
        if pod.gang is None:
            return
        members = self._members.get(pod.gang, {})
        members.pop(pod.id, None)
        if not members:
            self._members.pop(pod.gang, None)

    def members(self, gang: GangId) -> tuple[PodId, ...]:
        """Give the pods of a gang that stand in the queue, in the order in which they came."""
        return tuple(self._members.get(gang, ()))

    def has(self, gang: GangId) -> bool:
        """Whether a pod of a gang stands in the queue."""
        return gang in self._members

    def is_incomplete(self, gang: GangId) -> bool:
        """Whether too few members of a gang exist for it to be decided."""
        return self._stand(gang).missing > 0

    def is_missing_some(self, pod: Pod) -> bool:
        """Whether too few members of the pod's gang exist for it to be decided."""
        return pod.gang is not None and self.is_incomplete(pod.gang)

    def is_completing(self, pod: Pod, now: float) -> bool:
        """Whether some members of the pod's gang run and not enough of them, and a place among them is the pod's."""
        return pod.gang is not None and self._stand(pod.gang).is_partial and self._completing.is_entitled(pod, now)
