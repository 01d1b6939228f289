"""The loop of the repairing controller, while this replica leads."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.kube import repair_plans
from scheduler.kube.errors import DecodeError, Forbidden, KubeError, NotFound
from scheduler.kube.repair_plans import PlanDecision, PlanState, RepairPlan
from scheduler.kube.writer import FencedError
from scheduler.observe import logs
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.executor import Executor, Reports
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings import Settings
from scheduler.settings.repairs import RepairMode
from scheduler.worker.supervisor import WorkerError

_SOON_SECONDS: Final = 0.1

_log: Final = logs.logger()


class Repairer:
    """Looks at the fleet every `repair.intervalSeconds`; `clock` gives seconds since the epoch."""

    def __init__(
        self,
        parts: AdvisorParts,
        keeper: HoldKeeper,
        reports: Reports,
        settings: Settings,
        *,
        upgrade: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`upgrade` says whether one runs (`scheduler.repair.upgrades`); empty where none does."""
        self._parts: Final = parts
        self._settings: Final = settings
        self._metrics: Final = reports[1]
        self._clock: Final = clock
        self._upgrade: Final = upgrade
        self._advisor: Final = Advisor(parts, settings, clock)
        limits = float(settings.device_holds.max_seconds), clock
        self._executor: Final = Executor(parts, self._advisor, keeper, reports, limits)
        self._last_error = self._halted = ""
        self._wakes = False
        """Whether the last look wrote something, so that the next one may find more to do."""

    async def run(self) -> None:
        """
        Look again and again, until the replica leads no more.

        The first look is one interval after this replica began to lead: what the last leader has evicted is seen then.
        """
        if self._settings.repair.mode is RepairMode.DISABLED:
            return
        while True:
            await asyncio.sleep(_SOON_SECONDS if self._wakes else self._settings.repair.interval_seconds)
            self._wakes = False
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
        record = PlanRecord(plans, self._settings.repair, self._clock(), self._upgrade())
        self._metrics.repair_plans.clear()
        for plan in plans:
            self._metrics.repair_plans.labels(plan.spec.goal.kind, plan.status.state).inc()
        self._metrics.repair_moves_in_flight.set(record.on_the_way)
        is_busy = await self._advance(record)
        if record.halted != self._halted:
            self._halted = record.halted
            _log.info(logs.REPAIR_HALTED, reason=record.halted)
        if not is_busy and not record.halted:
            await self._advisor.look(record)
        self._metrics.repair_goals_unreachable.set(len(self._advisor.failures))

    async def _advance(self, record: PlanRecord) -> bool:
        """Go on with the plan that is decided about, or under way; whether there is one."""
        if self._settings.repair.mode is not RepairMode.APPLY:
            return False
        for plan in record.plans:
            is_approved = plan.spec.decision is PlanDecision.APPROVED or self._settings.repair.auto_approve
            is_begun = bool(plan.status.moves) or plan.status.state is not PlanState.PROPOSED
            if plan.is_open and (is_begun or (is_approved and plan.spec.decision is not PlanDecision.CANCELLED)):
                self._wakes = await self._advance_one(plan, record)
                return True
        return False

    async def _advance_one(self, plan: RepairPlan, record: PlanRecord) -> bool:
        """Go on with a plan; one that cannot be read ends, and others get their turn."""
        try:
            return await self._executor.advance(plan, record)
        except DecodeError as error:
            await self._executor.end(plan, PlanState.STOPPED, f"{error}: Dovetail makes a new plan")
            return True

    def _report(self, error: Exception) -> None:
        """Log an error once while it stays the same."""
        text = str(error)
        if isinstance(error, (NotFound, Forbidden)):
            text = f"{text}: deploy/components/repair has the CustomResourceDefinition and the rights"
        if text != self._last_error:
            self._last_error = text
            _log.warning(logs.REPAIR_FAILED, error=text)
