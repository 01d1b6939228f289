"""Nominations that nothing comes of: for how long a pod without a node may have the same one nominated."""

from collections.abc import Callable
from typing import Final

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.nominations import Nominations
from scheduler.cluster.vacated import leaves
from solver.domain import Pod, PodId

STALE_SECONDS: Final = 1800.0
"""So long a nomination counts without being used, and after the last pod of a lower priority was seen leaving there."""


class Staleness:
    """Remembers since when nominations stand (status.nominatedNodeName has no time), by pod, uid and node."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: dict[tuple[PodId, str, str], float] = {}

    def stale(self, mirror: Mirror, nominations: Nominations) -> tuple[PodId, ...]:
        """Give the pods whose nomination does not count any more, sorted by key; to be asked with each decision."""
        if not mirror.nominated and not self._since:
            return ()
        now, before, self._since = self._clock(), self._since, {}
        found = []
        for pod in mirror.nominated.values():
            key = (pod.id, pod.uid, pod.nominated_node_name)
            since = now if _is_awaiting(mirror, nominations, pod) else before.get(key, now)
            self._since[key] = since
            if now - since > STALE_SECONDS:
                found.append(pod.id)
        return tuple(found)


def _is_awaiting(mirror: Mirror, nominations: Nominations, pod: Pod) -> bool:
    return any(leaves(each, pod, nominations) for each in mirror.company.on(pod.nominated_node_name).values())
