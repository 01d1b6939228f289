"""
A checked plan for every batch, whatever happens to the worker process.

The worker decides. Pods with which it ended, or with which a plan broke a rule, are suspected poison pods; they are
decided in isolation, in a child of the worker. While there is no worker, the shell itself decides greedily about a few
pods that are cheap because they have no claim left to allocate; the others wait for the worker.

The plan of an isolated decision is checked once more, against the present cluster. The shell evaluates no CEL: that the
selectors hold was found by the child, and is so still where nothing has changed that they read (`evaluated_objects`).
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from msgspec import structs

import solver
from scheduler.cluster import Cluster
from scheduler.observe.tracebacks import traceback_text
from scheduler.worker import checked_plan, recording
from scheduler.worker.decision_limits import Limits
from scheduler.worker.decision_recorder import DecisionRecorder
from scheduler.worker.evaluated_objects import are_selectors_settled, without_selectors
from scheduler.worker.supervisor import (
    ChildEndedError,
    DecisionRequest,
    SolveFailedError,
    WorkerAbsentError,
    WorkerError,
    WorkerSupervisor,
)
from scheduler.worker.telemetry import SolverTelemetry
from solver.domain import (
    Batch,
    Budget,
    Plan,
    Pod,
    PodId,
    Policy,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    Unplaced,
    Violation,
)

_DROPPED: Final = "the solver's plans broke a rule and were dropped"
_MOST_SAVED: Final = 64
"""The number of saved cases that are remembered."""
_SAVE_SECONDS: Final = 30.0
"""The shortest time between two saves: saving a large cluster blocks the shell for half a second."""
_NO_PODS: Final = Batch(pods=())
_MOST_FALLBACK_PODS: Final = 16
"""The most pods in one decision of the shell itself."""
_MOST_FALLBACK_OBJECTS: Final = 10_000
"""The largest cluster, in objects, for decisions of the shell itself; in a larger one all pods wait."""
_FALLBACK_SECONDS: Final = 0.2
_FALLBACK_UNITS: Final = 20_000
_UNIT_SECONDS: Final = 1e-6
"""The approximate time of a cost unit."""
_ABSENCE_SECONDS: Final = 0.25
"""How often the shell looks for cheap pods while there is no worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """
    A checked plan for a batch, and the wall seconds that it took. Each pod without a decision is in one other batch.

    | batch | its pods are decided |
    |---|---|
    | `deferred` | next, without the others |
    | `over_budget` | in isolation: their evaluation would delay the others |
    | `suspects` | in isolation: the worker ended, or a rule was broken, with them in the batch |
    | `without_worker` | when there is a worker again |

    At most `cost_seconds` of the time went into evaluating what was not cached. `file` is where the decision is saved,
    "" where it is not. `seen` is the cluster before an isolated decision.
    """

    batch: Batch
    plan: Plan
    seconds: float
    cost_seconds: float = 0.0
    deferred: Batch = _NO_PODS
    over_budget: Batch = _NO_PODS
    suspects: Batch = _NO_PODS
    without_worker: Batch = _NO_PODS
    file: str = ""
    seen: Snapshot | None = None


class Decider:
    """Asks the worker, decides itself while there is none, and says which pods need an isolated decision."""

    def __init__(
        self,
        worker: WorkerSupervisor,
        cluster: Cluster,
        limits: tuple[Limits, Limits],
        telemetry: SolverTelemetry,
        *,
        recorder: DecisionRecorder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits` are those of a batch, and those of a decision about costly pods."""
        self._recorder: Final = recorder
        self._worker: Final = worker
        self._cluster: Final = cluster
        self._limits, self._costly_limits = limits
        self._telemetry: Final = telemetry
        self._clock: Final = clock
        self._saved: Final[dict[tuple[str, frozenset[str]], None]] = {}
        self._next_save = -math.inf

    async def wait_until_able(self) -> None:
        """Wait until there is a worker, or it is time to look for pods that need none."""
        if not self._worker.is_ready:
            try:
                async with asyncio.timeout(_ABSENCE_SECONDS):
                    await self._worker.wait_until_ready()
            except TimeoutError:
                pass

    async def wait_until_ready(self) -> None:
        """Wait until there is a worker."""
        await self._worker.wait_until_ready()

    async def warm_up(self, batch: Batch, policy: Policy) -> None:
        """Have the worker decide a batch and drop the plan: its first decision reads the whole cluster."""
        try:
            await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError:
            return
        except WorkerError as error:
            self._telemetry.lost(error, batch)

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        """Return a checked plan for the pods that can be decided together now."""
        started, before = self._clock(), self._recorder.begin(self._cluster.snapshot)
        try:
            answer = await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError as error:
            self._telemetry.fell_back(str(error))
            return await self._fall_back(batch, policy, started)
        except WorkerError as error:
            self._telemetry.lost(error, batch)
            if len(batch.pods) == 1 or isinstance(error, SolveFailedError):
                self._save(batch, policy, str(error).strip().rpartition("\n")[2])
            return self._decision(batch, _empty_plan(), started, suspects={pod.id for pod in batch.pods})
        self._telemetry.decided(answer.seconds, self._limits.seconds)
        decision = self._checked(batch, policy, answer.plan, answer.violations, started)
        return self._recorded(decision, before, batch, policy, self._limits)

    async def decide_isolated(
        self, batch: Batch, policy: Policy, *, is_costly: bool, is_greedy: bool = False
    ) -> Decision:
        """
        Return a checked plan made by a child of the worker, with the limits of costly pods or those of a batch.

        A decision about costly pods is final: a pod that it cannot decide is unplaced, and not `over_budget` again.
        Raise `ChildEndedError` where the child broke a limit, and other `WorkerError`s where its parent is not there.
        """
        started, before = self._clock(), self._recorder.begin(self._cluster.snapshot)
        seen = self._cluster.snapshot()
        request = DecisionRequest(
            batch=batch,
            assumptions=self._cluster.assumptions(),
            policy=policy,
            limits=self._costly_limits if is_costly else self._isolated_limits(),
            may_defer=not is_costly,
            is_greedy=is_greedy,
        )
        try:
            answer = await self._worker.decide_isolated(request)
        except (ChildEndedError, SolveFailedError) as error:
            if is_costly:
                self._report_poison_pod(batch, policy, error)
            raise
        decision = self._checked(batch, policy, answer.plan, answer.violations, started, is_isolated=is_costly)
        return self._recorded(replace(decision, seen=seen), before, batch, policy, request.limits)

    async def is_still_valid(self, decision: Decision, policy: Policy) -> bool:
        """Whether the plan of an isolated decision keeps every rule on the present cluster."""
        now, plan = self._cluster.snapshot(), decision.plan
        if decision.seen is None or not are_selectors_settled(decision.seen, now, plan):
            return False
        snapshot = without_selectors(now, plan)
        violations = await asyncio.to_thread(solver.verify.check, snapshot, decision.batch, plan, policy)
        return not violations

    def _isolated_limits(self) -> Limits:
        return replace(self._limits, memory_limit_mib=self._costly_limits.memory_limit_mib)

    def _checked(
        self,
        batch: Batch,
        policy: Policy,
        plan: Plan | None,
        violations: tuple[Violation, ...],
        started: float,
        *,
        is_isolated: bool = False,
    ) -> Decision:
        """Report the defects of a plan; pods left out of it because a rule was broken with them are suspects."""
        if violations:
            self._telemetry.violated(violations)
            self._save(batch, policy, "the plan broke a rule")
        plan = plan or checked_plan.all_failed(batch, _DROPPED)
        if plan.report.defects:
            self._telemetry.contradicted(plan.report.defects, batch)
            self._save(batch, policy, "the search contradicted itself")
        for each in plan.report.quarantined:
            self._telemetry.quarantined(each)
        failed = set() if is_isolated else {each.pod for each in plan.unplaced if _has_failed(each)}
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
            batch=batch.without({*plan.deferred, *plan.over_budget, *suspects}),
            plan=plan,
            seconds=seconds,
            cost_seconds=min(seconds, self._limits.cost_units * _UNIT_SECONDS),
            deferred=only(plan.deferred),
            over_budget=only(plan.over_budget),
            suspects=only(suspects),
        )

    async def _fall_back(self, batch: Batch, policy: Policy, started: float) -> Decision:
        """Decide cheap pods with the greedy solver, in a thread of the shell; defer the others."""
        chosen = self._cheap(batch)
        rest = batch.without({pod.id for pod in chosen})
        now = batch.without({pod.id for pod in rest.pods})
        if not now.pods:
            return Decision(batch=now, plan=_empty_plan(), seconds=0.0, without_worker=rest)
        decide = partial(_greedy, self._cluster.snapshot(), now, policy)
        try:
            plan, violations = await asyncio.to_thread(decide)
        except Exception as error:  # noqa: BLE001 - a defect on one batch must not end the scheduler
            self._telemetry.failed(traceback_text(error), now)
            return Decision(batch=_NO_PODS, plan=_empty_plan(), seconds=0.0, suspects=now, without_worker=rest)
        decision = self._checked(now, policy, plan, violations, started)
        return replace(decision, without_worker=rest)

    def _cheap(self, batch: Batch) -> tuple[Pod, ...]:
        """Choose pods that need no evaluation of selectors: without claims, or with allocated claims only."""
        if self._worker.object_count > _MOST_FALLBACK_OBJECTS:
            return ()
        return tuple(pod for pod in batch.pods if self._is_cheap(pod))[:_MOST_FALLBACK_PODS]

    def _is_cheap(self, pod: Pod) -> bool:
        if pod.gang is not None or any(each.claim is None and not each.is_skipped for each in pod.claims):
            return False
        if any("/" in resource for resource, _ in pod.requests):
            return False  # a device class may serve this extended resource by its selectors
        found = (self._cluster.claim(key) for key in pod.claim_ids)
        return all(claim is not None and claim.allocation is not None for claim in found)

    def _report_poison_pod(self, batch: Batch, policy: Policy, error: WorkerError) -> None:
        """Report pods whose isolated decision broke a limit or failed, and save the case."""
        self._telemetry.poison_pod(batch.pods, error)
        last = str(error).strip().rpartition("\n")[2]
        self._save(batch, policy, f"the solver failed on pod {batch.pods[0].id} alone: {last}")

    def _save(self, batch: Batch, policy: Policy, cause: str) -> None:
        """Save a case, once for each cause and set of pods, and at most one every `_SAVE_SECONDS`."""
        case, now = (cause, frozenset(pod.uid for pod in batch.pods)), self._clock()
        if case in self._saved or now < self._next_save:
            return
        self._next_save = now + _SAVE_SECONDS
        self._saved[case] = None
        if len(self._saved) > _MOST_SAVED:
            del self._saved[next(iter(self._saved))]
        self._telemetry.save(_record(cause, self._cluster.snapshot(), batch, policy, self._limits))

    def _recorded(
        self, decision: Decision, before: Snapshot | None, batch: Batch, policy: Policy, limits: Limits
    ) -> Decision:
        """Save a decision with the snapshot before it, where decisions are saved; only the pods that it decided."""
        if before is None or not decision.batch.pods:
            return decision
        record = _record("history", before, decision.batch, policy, limits)
        stopped = decision.plan.report.stopped if len(decision.batch.pods) == len(batch.pods) else ()
        return replace(decision, file=self._recorder.save(structs.replace(record, stopped=stopped)))


def _record(cause: str, snapshot: Snapshot, batch: Batch, policy: Policy, limits: Limits) -> recording.Record:
    return recording.Record(
        cause=cause,
        snapshot=snapshot,
        batch=batch,
        policy=policy,
        seconds=limits.seconds,
        deterministic_seconds=limits.deterministic_seconds,
        seed=limits.seed,
        workers=limits.workers,
    )


def _empty_plan() -> Plan:
    return Plan(report=SearchReport(status=SearchStatus.FALLBACK))


def _has_failed(unplaced: Unplaced) -> bool:
    return any(reason.code is ReasonCode.SOLVER_FAILED for reason in unplaced.reasons)


def _greedy(snapshot: Snapshot, batch: Batch, policy: Policy) -> tuple[Plan | None, tuple[Violation, ...]]:
    budget = Budget(seconds=_FALLBACK_SECONDS, cost_units=_FALLBACK_UNITS, may_defer=True)
    return checked_plan.decide(snapshot, batch, policy, budget, solver.solve_greedily)
