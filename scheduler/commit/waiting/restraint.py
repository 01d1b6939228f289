"""
Pods whose devices or volumes did not get ready evict nobody for a while.

What fails may be the pod's own doing, and then the next devices fail as well, and others leave them in vain, one node
after the other. It is tried on what is free; `avoidFailedDeviceSeconds` later it may evict again.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from solver.domain import Batch, ReasonCode

FAILURES: Final = frozenset({ReasonCode.BINDING_FAILED, ReasonCode.VOLUME_BINDING_FAILED})
"""What a pod comes to whose devices or volumes did not get ready."""
_NEVER: Final = "Never"


class Restraint:
    """Remembers such pods by uid for so many seconds; `clock` gives seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._until: Final[dict[str, float]] = {}

    def begin(self, uids: Iterable[str]) -> None:
        """Restrain pods; for one that is restrained already the time starts again."""
        now = self._clock()
        for uid in [uid for uid, until in self._until.items() if until <= now]:
            del self._until[uid]
        self._until.update((uid, now + self._seconds) for uid in uids)

    def holds(self, uid: str) -> bool:
        """Whether a pod is restrained now."""
        return self._until.get(uid, 0.0) > self._clock()

    def applied(self, batch: Batch) -> Batch:
        """Give the batch with these pods' preemptionPolicy as `Never`; the same batch where there are none."""
        now = self._clock()
        mine = {pod.uid for pod in batch.pods if self._until.get(pod.uid, now) > now}
        if not mine:
            return batch
        pods = tuple(
            msgspec.structs.replace(pod, preemption_policy=_NEVER) if pod.uid in mine else pod for pod in batch.pods
        )
        return msgspec.structs.replace(batch, pods=pods)
