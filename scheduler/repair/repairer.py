"""The loop of the repairing controller, while this replica leads."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.kube import repair_plans
from scheduler.kube.errors import Forbidden, KubeError, NotFound
from scheduler.kube.writer import FencedError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings import Settings
from scheduler.settings.repairs import RepairMode
from scheduler.worker.supervisor import WorkerError

_log: Final = logs.logger()


class Repairer:
    """Looks at the fleet every `repair.intervalSeconds`; `clock` gives seconds since the epoch."""

    def __init__(
        self, parts: AdvisorParts, settings: Settings, metrics: Metrics, clock: Callable[[], float] = time.time
    ) -> None:
        self._parts: Final = parts
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._advisor: Final = Advisor(parts, settings, clock)
        self._last_error = ""

    async def run(self) -> None:
        """
        Look again and again, until the replica leads no more.

        The first look is one interval after this replica began to lead: what the last leader has evicted is seen then.
        """
        if self._settings.repair.mode is RepairMode.DISABLED:
            return
        while True:
            await asyncio.sleep(self._settings.repair.interval_seconds)
            try:
                await self.look()
            except FencedError:
                return
            except (KubeError, WorkerError) as error:
                self._report(error)
            else:
                self._last_error = ""

    async def look(self) -> None:
        """Look at the plans and the fleet once. Raise `KubeError` and `WorkerError`."""
        await self._parts.writer.until_fresh()
        plans = await self._parts.writer.read(partial(repair_plans.list_plans, self._parts.client))
        record = PlanRecord(plans, self._settings.repair, self._clock())
        self._metrics.repair_plans.clear()
        for plan in plans:
            self._metrics.repair_plans.labels(plan.spec.goal.kind, plan.status.state).inc()
        self._metrics.repair_moves_in_flight.set(record.on_the_way)
        await self._advisor.look(record)
        self._metrics.repair_goals_unreachable.set(len(self._advisor.failures))

    def _report(self, error: Exception) -> None:
        """Log an error once while it stays the same."""
        text = str(error)
        if isinstance(error, (NotFound, Forbidden)):
            text = f"{text}: deploy/components/repair has the CustomResourceDefinition and the rights"
        if text != self._last_error:
            self._last_error = text
            _log.warning(logs.REPAIR_FAILED, error=text)
