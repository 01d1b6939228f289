"""
A plan for every batch, whatever happens to the solver's process.

The process is asked first. While it starts, or when it was lost on this batch, the greedy plan covers the gap, made
and checked in a thread of the shell: slower for the loop beside it, but never silent.
"""

import asyncio
import time
import traceback
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from scheduler.cluster import Cluster
from scheduler.worker import record, serve
from scheduler.worker.process import Limits, Worker, WorkerAbsentError, WorkerError
from scheduler.worker.sight import Sight
from scheduler.worker.suspects import Suspects
from solver import solve_greedily
from solver.domain import (
    Batch,
    Budget,
    Plan,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
    Violation,
)

_DROPPED: Final = "the solver's plans broke a rule and were dropped"
_MOST_SAVED: Final = 64
"""Cases that are remembered as saved."""
_NOBODY: Final = Batch(pods=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A checked plan for a batch, the wall seconds that it took, and the pods that want a decision of their own."""

    batch: Batch
    plan: Plan
    seconds: float
    later: Batch = _NOBODY


class Decider:
    """Asks the solver's process, covers for it, and finds out which pod kills it."""

    def __init__(self, worker: Worker, cluster: Cluster, limits: Limits, sight: Sight) -> None:
        self._worker: Final = worker
        self._cluster: Final = cluster
        self._limits: Final = limits
        self._sight: Final = sight
        self._suspects: Final = Suspects()
        self._saved: Final[dict[tuple[str, frozenset[str]], None]] = {}

    def divide(self, batch: Batch) -> tuple[Batch, ...]:
        """Split a batch into what may be decided together; one part, unless the process was lost before."""
        return self._suspects.divide(batch)

    def forget(self, pod_uid: str) -> None:
        """Drop what is suspected of a pod, because it is gone, bound or changed."""
        self._suspects.forget((pod_uid,))

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        """Give a checked plan, at worst one that places nobody and says so."""
        started = time.monotonic()
        plan = await self._solve(batch, policy)
        seconds, later = time.monotonic() - started, frozenset((*plan.later, *plan.costly))
        now = batch.without(later)
        return Decision(batch=now, plan=plan, seconds=seconds, later=batch.without({pod.id for pod in now.pods}))

    async def _solve(self, batch: Batch, policy: Policy) -> Plan:
        if any(self._suspects.is_guilty(pod) for pod in batch.pods):
            return await self._cover(batch, policy, "the solver fails on this pod alone")
        try:
            answer = await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError as error:
            self._sight.covers(str(error))
            return await self._cover(batch, policy, "")
        except WorkerError as error:
            self._sight.lost(error, batch)
            self._accuse(batch, policy, error)
            return await self._cover(batch, policy, "the solver failed on a batch that held the pod")
        self._sight.solved()
        if answer.violations:
            self._sight.violated(answer.violations)
            self._save(batch, policy, "the plan broke a rule")
        plan = answer.plan or nobody(batch, _DROPPED)
        self._judge(batch.without(frozenset((*plan.later, *plan.costly))), plan, policy)
        return plan

    def _judge(self, batch: Batch, plan: Plan, policy: Policy) -> None:
        """Clear the pods that were planned for; suspect those that had to be left out, so that they come back apart."""
        failed = {
            each.pod
            for each in plan.unplaced
            if any(reason.code is ReasonCode.SOLVER_FAILED for reason in each.reasons)
        }
        self._suspects.clear(Batch(pods=tuple(pod for pod in batch.pods if pod.id not in failed)))
        if failed:
            left = Batch(pods=tuple(pod for pod in batch.pods if pod.id in failed))
            self._accuse(left, policy, WorkerError(_DROPPED))

    async def _cover(self, batch: Batch, policy: Policy, failure: str) -> Plan:
        """Decide greedily; `failure` is told to the pods that get no place."""
        decide = partial(_greedy, self._cluster.snapshot(), batch, policy, self._limits.seconds)
        try:
            plan, violations = await asyncio.to_thread(decide)
        except Exception as error:  # noqa: BLE001 - a defect on one batch must not end the scheduler
            self._sight.failed(traceback.format_exc(limit=-20), batch)
            self._accuse(batch, policy, error)
            return nobody(batch, failure or "the solver failed on a batch that held the pod")
        if violations:
            self._sight.violated(violations)
        if plan is None:
            return nobody(batch, _DROPPED)
        return _blamed(plan, failure) if failure else plan

    def _accuse(self, batch: Batch, policy: Policy, error: Exception) -> None:
        for pod in self._suspects.accuse(batch):
            self._sight.guilty(pod)
            self._save(batch, policy, f"the solver failed on pod {pod.id} alone: {error}")

    def _save(self, batch: Batch, policy: Policy, cause: str) -> None:
        """Save a case, once for one cause and the same pods."""
        case = (cause, frozenset(pod.uid for pod in batch.pods))
        if case in self._saved:
            return
        self._saved[case] = None
        if len(self._saved) > _MOST_SAVED:
            del self._saved[next(iter(self._saved))]
        self._sight.save(
            record.Record(
                cause=cause,
                snapshot=self._cluster.snapshot(),
                batch=batch,
                policy=policy,
                seconds=self._limits.seconds,
                deterministic_seconds=self._limits.deterministic_seconds,
                seed=self._limits.seed,
                workers=self._limits.workers,
            )
        )


def nobody(batch: Batch, message: str) -> Plan:
    """Give the plan that places no pod, each with the reason that the solver failed."""
    reason = Reason(code=ReasonCode.SOLVER_FAILED, message=message)
    return Plan(
        unplaced=tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(reason,)) for pod in batch.pods),
        report=SearchReport(status=SearchStatus.FALLBACK),
    )


def _blamed(plan: Plan, failure: str) -> Plan:
    """Add to every unplaced pod that the solver failed, so that it is tried again soon."""
    reason = Reason(code=ReasonCode.SOLVER_FAILED, message=failure)
    unplaced = tuple(msgspec.structs.replace(each, reasons=(*each.reasons, reason)) for each in plan.unplaced)
    return msgspec.structs.replace(plan, unplaced=unplaced)


def _greedy(
    snapshot: Snapshot, batch: Batch, policy: Policy, seconds: float
) -> tuple[Plan | None, tuple[Violation, ...]]:
    return serve.decide(snapshot, batch, policy, Budget(seconds=seconds), solve_greedily)
