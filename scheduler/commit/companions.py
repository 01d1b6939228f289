"""
Pods that others lean on by their required affinity: who leans on a pod that is not bound yet waits for its binding.

Else the one would be bound, and the other, whose writes fail, would not be there. A unit waits only for units that
began before it, so that none wait for each other, and for each of its pods for one other at most.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from scheduler.cluster import Cluster, Unit
from solver.domain import PodId, Reason, ReasonCode

LeanedOn = tuple[tuple[PodId, asyncio.Event], ...]
"""Pods that a unit has to be with, each with the end of its commit."""


class Companions:
    """Knows which pods are being committed, in the order in which that began."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._under_way: Final[dict[PodId, asyncio.Event]] = {}

    def begin(self, unit: Unit, settled: asyncio.Event) -> LeanedOn:
        """Note that a unit is committed until `settled` is set; give the pods that it leans on, with their ends."""
        leaned_on = tuple((key, self._under_way[key]) for key in dict.fromkeys(self._leaned_on(unit)))
        for placement in unit.placements:
            self._under_way.setdefault(placement.pod, settled)
        return leaned_on

    def end(self, unit: Unit, settled: asyncio.Event) -> None:
        """Forget a unit."""
        for placement in unit.placements:
            if self._under_way.get(placement.pod) is settled:
                del self._under_way[placement.pod]

    async def wait(self, leaned_on: LeanedOn) -> tuple[Reason, ...]:
        """Wait for the pods that a unit leans on; say which of them did not get to their nodes."""
        for _, settled in leaned_on:
            await settled.wait()
        if leaned_on:
            await asyncio.sleep(0)  # whoever commits them forgets first what came to nothing
        return tuple(
            Reason(code=ReasonCode.CONFLICT, message=f"pod {key}, which it has to be with, was not bound after all")
            for key, _ in leaned_on
            if (pod := self._cluster.pod(key)) is None or not pod.node_name
        )

    def _leaned_on(self, unit: Unit) -> Iterator[PodId]:
        own = {placement.pod for placement in unit.placements}
        others: list[PodId] | None = None
        for placement in unit.placements if self._under_way else ():
            pod = self._cluster.seen_pod(placement.pod)
            if pod is None or not pod.affinity or self._cluster.is_accompanied(pod, placement.node, own):
                continue
            others = [key for key in self._under_way if key not in own] if others is None else others
            found = next((key for key in others if self._cluster.accompanies(key, pod, placement.node)), None)
            if found is not None:
                yield found
