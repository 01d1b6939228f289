"""A plan for every batch, whatever happens to the solver's process.

The process is asked. Pods with which it ended, or whose plan broke a rule, are suspects: they are decided aside, in a
child of the process. While there is no process the shell decides itself about a few pods that are known to be cheap,
because they have no claim left to allocate; the others wait the moment that a start takes.

What a plan that was made aside is checked against once more: the cluster as it is by now, without selectors.

The child that made the plan has checked it whole. Selectors are what it may have spent its time on, the cluster has not
changed what they say of a device that it still publishes, and the scheduler's own process evaluates none.
"""

import asyncio
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from msgspec import structs

from scheduler.cluster import Cluster
from scheduler.worker import recording, serve
from scheduler.worker.decision_limits import Limits
from scheduler.worker.supervisor import (
    AsideEndedError,
    Question,
    SolveFailedError,
    Worker,
    WorkerAbsentError,
    WorkerError,
)
from scheduler.worker.telemetry import Sight
from solver import solve_greedily, verify
from solver.domain import (
    AllocationMode,
    Batch,
    Budget,
    Claim,
    Plan,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    Request,
    RequestName,
    SearchReport,
    SearchStatus,
    Snapshot,
    SubRequest,
    Unplaced,
    Violation,
)


def without_selectors(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """
    Give a snapshot in which every device is selected by the classes, and by the claims that a plan allocates.

    What asks for all devices that match asks for as many as the plan gives it.
    """
    given = {each.claim: Counter(result.request for result in each.allocation.results) for each in plan.allocations}
    return structs.replace(
        snapshot,
        classes=tuple(structs.replace(each, selectors=()) if each.selectors else each for each in snapshot.classes),
        claims=tuple(
            _open(each, given[each.id]) if each.id in given and each.requests else each for each in snapshot.claims
        ),
    )


def _open(claim: Claim, given: Counter[str]) -> Claim:
    return structs.replace(claim, requests=tuple(_anything(each, given) for each in claim.requests))


def _anything(request: Request, given: Counter[str]) -> Request:
    alternatives = (
        structs.replace(
            each, selectors=(), allocation_mode=AllocationMode.EXACT_COUNT, count=_count(request, each, given)
        )
        for each in request.alternatives
    )
    return structs.replace(request, alternatives=tuple(alternatives))


def _count(request: Request, wanted: SubRequest, given: Counter[str]) -> int:
    if wanted.allocation_mode != AllocationMode.ALL:
        return wanted.count
    return given[str(RequestName(request.name, wanted.name))]


_DROPPED: Final = "the solver's plans broke a rule and were dropped"
_MOST_SAVED: Final = 64
"""Cases that are remembered as saved."""
_SAVE_SECONDS: Final = 30.0
"""Between two cases that are saved: a large cluster takes half a second to write down, and everything waits for it."""
_NOBODY: Final = Batch(pods=())
_MOST_COVERED: Final = 16
"""Pods that the shell's own process decides about together."""
_MOST_OBJECTS: Final = 10_000
"""Objects of a cluster whose snapshot the shell's own process reads for that; in a larger one all pods wait."""
_COVER_SECONDS: Final = 0.2
_COVER_UNITS: Final = 20_000
_UNIT_SECONDS: Final = 1e-6
"""What a unit of an allowance takes, about."""
_ABSENCE_SECONDS: Final = 0.25
"""While there is no process the shell looks for cheap pods as often as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """
    A checked plan for a batch, and the wall seconds that it took; the other pods stand in one of the other batches.

    Of the seconds at most `cost_seconds` went into what was not known yet.
    `later` want a decision of their own next. `costly` and `suspects` want one aside, because they are too costly to be
    decided with others, or were there when the process ended. `deferred` wait for the process to be there again.
    """

    batch: Batch
    plan: Plan
    seconds: float
    cost_seconds: float = 0.0
    later: Batch = _NOBODY
    costly: Batch = _NOBODY
    suspects: Batch = _NOBODY
    deferred: Batch = _NOBODY


class Decider:
    """Asks the solver's process, covers for it, and says which pods are to be decided aside."""

    def __init__(
        self,
        worker: Worker,
        cluster: Cluster,
        limits: tuple[Limits, Limits],
        sight: Sight,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits` are those of a batch, and those of a costly decision."""
        self._worker: Final = worker
        self._cluster: Final = cluster
        self._limits, self._costly_limits = limits
        self._sight: Final = sight
        self._clock: Final = clock
        self._saved: Final[dict[tuple[str, frozenset[str]], None]] = {}
        self._next_save = -math.inf

    async def wait_until_able(self) -> None:
        """Wait until there is a process, or it is time to look for pods that need none."""
        if not self._worker.is_ready:
            try:
                async with asyncio.timeout(_ABSENCE_SECONDS):
                    await self._worker.wait_until_ready()
            except TimeoutError:
                pass

    async def wait_until_ready(self) -> None:
        """Wait until there is a process."""
        await self._worker.wait_until_ready()

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        """Give a checked plan for what can be decided together now."""
        started = self._clock()
        try:
            answer = await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError as error:
            self._sight.covers(str(error))
            return await self._cover(batch, policy, started)
        except WorkerError as error:
            self._sight.lost(error, batch)
            if len(batch.pods) == 1 or isinstance(error, SolveFailedError):
                self._save(batch, policy, str(error).strip().rpartition("\n")[2])
            return self._decision(batch, _nothing(), started, suspects={pod.id for pod in batch.pods})
        self._sight.solved()
        return self._checked(batch, policy, answer.plan, answer.violations, started)

    async def decide_aside(self, batch: Batch, policy: Policy, *, is_costly: bool, is_greedy: bool = False) -> Decision:
        """
        Give a checked plan that a child of the process made, with the limits of a costly decision or those of a batch.

        A costly decision comes to its end: what it cannot decide is unplaced and not `costly` again. Raise
        `AsideEndedError` where the child broke a limit, and other `WorkerError`s where its parent is not there.
        """
        started = self._clock()
        question = Question(
            batch=batch,
            assumptions=self._cluster.assumptions(),
            policy=policy,
            limits=self._costly_limits if is_costly else self._limits_aside(),
            may_leave=not is_costly,
            is_greedy=is_greedy,
        )
        try:
            answer = await self._worker.decide_aside(question)
        except (AsideEndedError, SolveFailedError) as error:
            if is_costly:
                self._accuse(batch, policy, error)
            raise
        return self._checked(batch, policy, answer.plan, answer.violations, started, is_alone=is_costly)

    async def holds(self, decision: Decision, policy: Policy) -> bool:
        """Whether a plan that was made aside keeps every rule on the cluster as it is by now, selectors apart."""
        snapshot = without_selectors(self._cluster.snapshot(), decision.plan)
        violations = await asyncio.to_thread(verify.check, snapshot, decision.batch, decision.plan, policy)
        return not violations

    def _limits_aside(self) -> Limits:
        return replace(self._limits, memory_limit_mib=self._costly_limits.memory_limit_mib)

    def _checked(
        self,
        batch: Batch,
        policy: Policy,
        plan: Plan | None,
        violations: tuple[Violation, ...],
        started: float,
        *,
        is_alone: bool = False,
    ) -> Decision:
        """Look through a plan: pods that were left out of it, because a rule was broken with them, are suspects."""
        if violations:
            self._sight.violated(violations)
            self._save(batch, policy, "the plan broke a rule")
        plan = plan or nobody(batch, _DROPPED)
        if plan.report.defects:
            self._sight.contradicted(plan.report.defects, batch)
            self._save(batch, policy, "the search contradicted itself")
        for each in plan.report.quarantined:
            self._sight.quarantined(each)
        failed = set() if is_alone else {each.pod for each in plan.unplaced if _has_failed(each)}
        if failed:
            left = tuple(each for each in plan.unplaced if each.pod not in failed)
            plan = structs.replace(plan, unplaced=left)
        return self._decision(batch, plan, started, suspects=failed)

    def _decision(self, batch: Batch, plan: Plan, started: float, *, suspects: Collection[PodId] = ()) -> Decision:
        chosen = {pod.id for pod in batch.pods}

        def only(pods: Collection[PodId]) -> Batch:
            return batch.without(chosen - set(pods))

        seconds = self._clock() - started
        return Decision(
            batch=batch.without({*plan.later, *plan.costly, *suspects}),
            plan=plan,
            seconds=seconds,
            cost_seconds=min(seconds, self._limits.cost_units * _UNIT_SECONDS),
            later=only(plan.later),
            costly=only(plan.costly),
            suspects=only(suspects),
        )

    async def _cover(self, batch: Batch, policy: Policy, started: float) -> Decision:
        """Decide greedily about pods that are known to be cheap, in a thread of the shell; the others are deferred."""
        chosen = self._cheap(batch)
        rest = batch.without({pod.id for pod in chosen})
        now = batch.without({pod.id for pod in rest.pods})
        if not now.pods:
            return Decision(batch=now, plan=_nothing(), seconds=0.0, deferred=rest)
        decide = partial(_greedy, self._cluster.snapshot(), now, policy)
        try:
            plan, violations = await asyncio.to_thread(decide)
        except Exception:  # noqa: BLE001 - a defect on one batch must not end the scheduler
            self._sight.failed(traceback.format_exc(limit=-20), now)
            return Decision(batch=_NOBODY, plan=_nothing(), seconds=0.0, suspects=now, deferred=rest)
        decision = self._checked(now, policy, plan, violations, started)
        return replace(decision, deferred=rest)

    def _cheap(self, batch: Batch) -> tuple[Pod, ...]:
        """Choose pods that need no selector and no combination: without claims, or with claims that are allocated."""
        if self._worker.object_count > _MOST_OBJECTS:
            return ()
        return tuple(pod for pod in batch.pods if self._is_cheap(pod))[:_MOST_COVERED]

    def _is_cheap(self, pod: Pod) -> bool:
        if pod.gang is not None or any(each.claim is None and not each.is_skipped for each in pod.claims):
            return False
        if any("/" in resource for resource, _ in pod.requests):
            return False  # a class may stand for it, and the class's selectors for devices
        found = (self._cluster.claim(key) for key in pod.claim_ids)
        return all(claim is not None and claim.allocation is not None for claim in found)

    def _accuse(self, batch: Batch, policy: Policy, error: WorkerError) -> None:
        """Note pods on which alone a decision broke a limit or failed, and save their case."""
        self._sight.guilty(batch.pods, error)
        last = str(error).strip().rpartition("\n")[2]
        self._save(batch, policy, f"the solver failed on pod {batch.pods[0].id} alone: {last}")

    def _save(self, batch: Batch, policy: Policy, cause: str) -> None:
        """Save a case, once for one cause and the same pods; one that comes soon after another when it comes again."""
        case, now = (cause, frozenset(pod.uid for pod in batch.pods)), self._clock()
        if case in self._saved or now < self._next_save:
            return
        self._next_save = now + _SAVE_SECONDS
        self._saved[case] = None
        if len(self._saved) > _MOST_SAVED:
            del self._saved[next(iter(self._saved))]
        self._sight.save(
            recording.Record(
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
    unplaced = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(reason,)) for pod in batch.pods)
    return structs.replace(_nothing(), unplaced=unplaced)


def _nothing() -> Plan:
    return Plan(report=SearchReport(status=SearchStatus.FALLBACK))


def _has_failed(unplaced: Unplaced) -> bool:
    return any(reason.code is ReasonCode.SOLVER_FAILED for reason in unplaced.reasons)


def _greedy(snapshot: Snapshot, batch: Batch, policy: Policy) -> tuple[Plan | None, tuple[Violation, ...]]:
    budget = Budget(seconds=_COVER_SECONDS, cost_units=_COVER_UNITS, may_leave=True)
    return serve.decide(snapshot, batch, policy, budget, solve_greedily)
