"""
Reports pods whose schedulerName is nearly that of a profile of ours, and that no scheduler has picked up.

Such a pod waits without a word: its schedulerName cannot be changed, and no scheduler writes a condition. Pods of other
schedulers are left alone: names that are not similar cost one lookup in a cache; a name that a bound pod has belongs to
a scheduler; and the live pod must have no condition PodScheduled after half a minute.
"""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from scheduler.backoff import Cooldown
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.kube.errors import KubeError
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.settings.scheduler_names import LONGEST_NAME, similar_name
from solver.domain import Pod, PodId

IsPickedUp = Callable[[PodId, str], Awaitable[bool]]
"""Whether the live pod of this uid is gone, is bound, or has a condition of a scheduler. May raise KubeError."""
Record = Callable[[Pod, str], None]
"""Writes the event of a pod with the similar name."""

_GRACE_SECONDS: Final = 30.0
_PERIOD_SECONDS: Final = 1.0
_MOST_FOUND: Final = 1000
_EVENT_SECONDS: Final = 600.0
_MOST_OF_NAMESPACE: Final = 20
"""Events of one namespace within `_EVENT_SECONDS`: the pods of one Deployment say the same."""
_MOST_PER_LOOK: Final = 5
"""Live reads in a second."""


class MisspelledSchedulers:
    """Finds such pods among the changes of the watch, and reports each once."""

    def __init__(
        self,
        cluster: Cluster,
        is_picked_up: IsPickedUp,
        record: Record,
        scheduler_names: Collection[str],
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._is_picked_up: Final = is_picked_up
        self._record: Final = record
        self._names: Final = frozenset(scheduler_names)
        self._cached: Final = functools.lru_cache(maxsize=1024)(
            functools.partial(similar_name, known=tuple(scheduler_names))
        )
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._found: Final[dict[PodId, tuple[str, float]]] = {}
        """Uid of the pod, and since when it is known; oldest first."""
        self._of_others: Final[set[str]] = set()
        """Similar names that bound pods have."""
        self._recorded: Final[Cooldown[PodId]] = Cooldown(_EVENT_SECONDS, clock, group_of=lambda pod: pod.namespace)

    def see(self, changes: Sequence[Change]) -> None:
        """Take changes of the watch."""
        for change in changes:
            if change.kind is Kind.PODS:
                self._see(change.key, change.value if isinstance(change.value, Pod) else None)

    def _see(self, key: str, pod: Pod | None) -> None:
        if pod is None:
            if self._found:
                self._found.pop(PodId(*key.split("/", 1)), None)
        elif pod.scheduler_name in self._names or not self._similar(pod.scheduler_name):
            return
        elif pod.node_name:
            self._of_others.add(pod.scheduler_name)
            self._found.pop(pod.id, None)
        elif self._waits(pod) and len(self._found) < _MOST_FOUND and pod.id not in self._recorded:
            self._found.setdefault(pod.id, (pod.uid, self._clock()))

    def _similar(self, name: str) -> str:
        """Return the name that is meant; a long one is not: the API server bounds no schedulerName."""
        return self._cached(name) if len(name) <= LONGEST_NAME else ""

    async def run(self) -> None:
        """Report every second."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            with Confined(self._metrics, Subsystem.MISSPELLED_SCHEDULERS):
                await self.look()

    async def look(self) -> None:
        """Report the pods that were found long enough ago, a few of them."""
        due = [key for key, (_, since) in self._found.items() if self._clock() - since >= _GRACE_SECONDS]
        for key in due[:_MOST_PER_LOOK]:
            uid, _ = self._found.pop(key)
            with Confined(self._metrics, Subsystem.MISSPELLED_SCHEDULERS, passing=(KubeError,), pod=str(key)):
                await self._look_at(key, uid)

    async def _look_at(self, key: PodId, uid: str) -> None:
        pod = self._cluster.observed_pod(key)
        if pod is None or pod.uid != uid or not self._waits(pod) or self._is_over_limit(key.namespace):
            return
        try:
            is_picked_up = await self._is_picked_up(key, uid)
        except KubeError:
            return
        if not is_picked_up and self._recorded.try_start(key):
            self._record(pod, self._similar(pod.scheduler_name))

    def _waits(self, pod: Pod) -> bool:
        return pod.is_pending and not pod.scheduling_gates and pod.scheduler_name not in self._of_others

    def _is_over_limit(self, namespace: str) -> bool:
        return self._recorded.count(namespace) >= _MOST_OF_NAMESPACE
