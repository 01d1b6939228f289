"""
Pods that name us and were given their node by hand: no scheduler runs for them, so nobody allocates their claims.

They stand there for ever, and the kubelet's message does not say why. After a while, for a pod that we have just bound
is seen before its claims are, an event says which nodeSelector does what was meant.
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
from solver.domain import Pod, PodId

_PATIENCE_SECONDS: Final = 5.0
_PERIOD_SECONDS: Final = 1.0
_HOSTNAME: Final = "kubernetes.io/hostname"


class ManuallyBoundPods:
    """Notes such pods as the watch shows them, and tells each once."""

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
        self._suspects: Final[dict[PodId, tuple[str, float]]] = {}
        self._told: Final[dict[PodId, str]] = {}

    def see(self, changes: Sequence[Change]) -> None:
        """Take what a watch told, after the mirror has taken it."""
        for change in changes:
            if change.kind is not Kind.PODS:
                continue
            pod = change.value
            if not isinstance(pod, Pod):
                key = PodId(*change.key.split("/", 1))
                self._told.pop(key, None)
                self._suspects.pop(key, None)
            elif self._told.get(pod.id) != pod.uid and self._lacking(pod):
                self._suspects.setdefault(pod.id, (pod.uid, self._clock()))

    async def run(self) -> None:
        """Look after them for ever."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            with Confined(self._metrics, Subsystem.STRAYS):
                self.look()

    def look(self) -> None:
        """Tell those that have stood there long enough."""
        now = self._clock()
        for key, (uid, since) in tuple(self._suspects.items()):
            if now - since < _PATIENCE_SECONDS:
                continue
            del self._suspects[key]
            with Confined(self._metrics, Subsystem.STRAYS, pod=str(key)):
                self._look_at(key, uid)

    def _look_at(self, key: PodId, uid: str) -> None:
        pod = self._cluster.seen_pod(key)
        if pod is not None and pod.uid == uid and (lacking := self._lacking(pod)):
            self._told[key] = uid
            self._reports.record_manually_bound(pod, self._message(pod, lacking))

    def _lacking(self, pod: Pod) -> list[str]:
        """Name the claims that a pod with a node has and nobody has allocated."""
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
        hostname = labels.get(_HOSTNAME, pod.node_name)
        claims = f"claim{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
        return (
            f"spec.nodeName was set to {pod.node_name} by hand, so no scheduler runs for this pod and nobody allocates "
            f"{claims}. Delete it, and create it without nodeName and with nodeSelector: "
            f'{{"{_HOSTNAME}": "{hostname}"}}'
        )
