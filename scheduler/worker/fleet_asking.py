"""Asks the worker about the fleet for the scheduler's API: one question at a time, and not too often."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from scheduler.cluster import Cluster
from scheduler.settings import Settings
from scheduler.worker import frames
from scheduler.worker.fleet_questions import FleetQuestion
from scheduler.worker.supervisor import WorkerSupervisor
from solver.domain import Policy

_LEAST_SECONDS: Final = 1.0
"""The shortest time between two questions: each forks the worker, whose next decision then copies some pages."""


class FleetAsking:
    """Answers questions about the fleet as the scheduler sees it, assumed writes included."""

    def __init__(
        self,
        worker: WorkerSupervisor,
        cluster: Cluster,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker: Final = worker
        self._cluster: Final = cluster
        self._policy: Final[Policy] = settings.policy(settings.profiles[0].scheduler_name)
        self._clock: Final = clock
        self._one_at_a_time: Final = asyncio.Lock()
        self._not_before = clock()
        self.node_group_label: Final = settings.metrics.node_group_label

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces of the cluster."""
        return tuple(each.name for each in self._cluster.snapshot().namespaces)

    async def ask(self, question: FleetQuestion) -> msgspec.Raw:
        """Return the encoded document. Raise `WorkerError`."""
        async with self._one_at_a_time:
            await asyncio.sleep(max(0.0, self._not_before - self._clock()))
            self._not_before = self._clock() + _LEAST_SECONDS
            return (await self._worker.ask_child(partial(self._order, question), frames.FleetAnswered)).document

    def _order(self, question: FleetQuestion, number: int, limits: frames.IsolationLimits) -> frames.AskFleet:
        return frames.AskFleet(
            id=number,
            assumptions=self._cluster.assumptions(),
            policy=self._policy,
            question=question,
            limits=limits,
        )
