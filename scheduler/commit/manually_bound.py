"""
Reports pods with claims whose spec.nodeName was set by hand: no scheduler allocates their claims, so they never start.

The kubelet's message does not say why. After a few seconds (a pod that we bind is seen before its claims are) an event
says which nodeSelector to use instead.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status.status_writer import StatusWriter
from solver.domain import HOSTNAME, Pod, PodId

_GRACE_SECONDS: Final = 5.0
_PERIOD_SECONDS: Final = 1.0


class ManuallyBoundPods:
    """Finds such pods among the changes of the watch, and reports each once."""

    def __init__(
        self,
        cluster: Cluster,
        reports: StatusWriter,
        scheduler_names: Collection[str],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._reports: Final = reports
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._found: Final[dict[PodId, tuple[str, float]]] = {}
        self._reported: Final[dict[PodId, str]] = {}

    def see(self, changes: Sequence[Change]) -> None:
        """Take changes of the watch after the cluster cache has them."""
        for change in changes:
            if change.kind is not Kind.PODS:
                continue
            pod = change.value
            if not isinstance(pod, Pod):
                key = PodId(*change.key.split("/", 1))
                self._reported.pop(key, None)
                self._found.pop(key, None)
            elif self._reported.get(pod.id) != pod.uid and self._lacking(pod):
                self._found.setdefault(pod.id, (pod.uid, self._clock()))

    async def run(self) -> None:
        """Report every second."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            with Confined(self._metrics, Subsystem.MANUALLY_BOUND):
                self.look()

    def look(self) -> None:
        """Report those that were found long enough ago."""
        now = self._clock()
        for key, (uid, since) in tuple(self._found.items()):
            if now - since < _GRACE_SECONDS:
                continue
            del self._found[key]
            with Confined(self._metrics, Subsystem.MANUALLY_BOUND, pod=str(key)):
                self._look_at(key, uid)

    def _look_at(self, key: PodId, uid: str) -> None:
        pod = self._cluster.observed_pod(key)
        if pod is not None and pod.uid == uid and (lacking := self._lacking(pod)):
            self._reported[key] = uid
            self._reports.record_manually_bound(pod, self._message(pod, lacking))

    def _lacking(self, pod: Pod) -> list[str]:
        """Name the unallocated claims of a pod with a node."""
        is_running = bool(pod.node_name) and not pod.is_terminal and not pod.is_deleting
        if not is_running or pod.scheduler_name not in self._scheduler_names:
            return []
        lacking = []
        for entry in pod.claims:
            claim = self._cluster.claim(entry.claim) if entry.claim is not None else None
            if not entry.is_skipped and (claim is None or claim.allocation is None):
                lacking.append(entry.claim.name if entry.claim is not None else entry.entry)
        return lacking

    def _message(self, pod: Pod, lacking: Sequence[str]) -> str:
        node = self._cluster.node(pod.node_name)
        labels = dict(node.labels) if node is not None and self._reports.tells_inventory else {}
        hostname = labels.get(HOSTNAME, pod.node_name)
        claims = f"claim{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
        return (
            f"spec.nodeName was set to {pod.node_name} by hand, so no scheduler allocates {claims}. "
            "Delete the pod, and create it without nodeName and with nodeSelector: "
            f'{{"{HOSTNAME}": "{hostname}"}}'
        )
