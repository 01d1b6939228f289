"""Asks the worker about the fleet for the scheduler's API: one question at a time, and not too often."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from scheduler.cluster import Cluster
from scheduler.settings import Settings
from scheduler.worker import frames
from scheduler.worker.fleet_questions import FleetQuestion
from scheduler.worker.supervisor import WorkerError, WorkerSupervisor
from solver.domain import Policy

_LEAST_SECONDS: Final = 1.0
"""The shortest time between two questions: each forks the worker, whose next decision then copies some pages."""
_PATIENCE_SECONDS: Final = 2.0
"""How long a question waits for the worker where the last answer to the same question is there."""
_OLDEST_SECONDS: Final = 300.0
"""An older answer is not given."""
_MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
"""Of the answers that are kept, the oldest are dropped first."""


class FleetReply(NamedTuple):
    """An encoded document, and how many seconds ago it was made where the worker gave no newer one in time."""

    document: msgspec.Raw
    age_seconds: float = 0.0


class FleetClient:
    """
    Answers questions about the fleet as the scheduler sees it, assumed writes included.

    The worker answers between two decisions: it has one thread, and it is forked for an answer. A process that kept the
    last snapshot for other questions meanwhile would hold a second copy of each page that the worker then writes to.
    So while a decision takes long, the last answer to the same question, with the same rights, is given with its age.
    """

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
        self._last: Final[dict[FleetQuestion, tuple[msgspec.Raw, float]]] = {}
        self._asking: Final[dict[FleetQuestion, asyncio.Task[msgspec.Raw]]] = {}
        self.node_group_label: Final = settings.metrics.node_group_label

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces of the cluster."""
        return tuple(each.name for each in self._cluster.snapshot().namespaces)

    async def ask(self, question: FleetQuestion) -> FleetReply:
        """Return what the worker answers now, or soon; else its last answer. Raise `WorkerError`."""
        last = self._last.get(question)
        if last is None or self._clock() - last[1] > _OLDEST_SECONDS:
            return FleetReply(await self._ask_worker(question))
        asking = self._asking.get(question)
        if asking is None:
            asking = self._asking[question] = asyncio.create_task(self._ask_worker(question))
            asking.add_done_callback(partial(self._asked, question))
        with contextlib.suppress(TimeoutError, WorkerError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return FleetReply(await asyncio.shield(asking))
        document, at = last
        return FleetReply(document, self._clock() - at)

    def _asked(self, question: FleetQuestion, asking: asyncio.Task[msgspec.Raw]) -> None:
        del self._asking[question]
        if not asking.cancelled():
            asking.exception()  # the caller may have the last answer already

    async def _ask_worker(self, question: FleetQuestion) -> msgspec.Raw:
        async with self._one_at_a_time:
            await asyncio.sleep(max(0.0, self._not_before - self._clock()))
            self._not_before = self._clock() + _LEAST_SECONDS
            answer = await self._worker.ask_child(partial(self._order, question), frames.FleetAnswered)
        self._keep(question, answer.document)
        return answer.document

    def _keep(self, question: FleetQuestion, document: msgspec.Raw) -> None:
        self._last.pop(question, None)
        self._last[question] = document, self._clock()
        while sum(len(memoryview(each)) for each, _ in self._last.values()) > _MOST_KEPT_BYTES:
            del self._last[next(iter(self._last))]

    def _order(self, question: FleetQuestion, number: int, limits: frames.IsolationLimits) -> frames.AskFleet:
        return frames.AskFleet(
            id=number,
            assumptions=self._cluster.assumptions(),
            policy=self._policy,
            question=question,
            limits=limits,
        )
