"""
A checked plan for every batch, whatever happens to the worker process.

The worker decides. Pods with which it ended, or with which a plan broke a rule, are suspected poison pods; they are
decided in isolation, in a child of the worker (`scheduler.isolated_lane`).

The plan of an isolated decision is checked once more, against the present cluster. The shell evaluates no CEL: that the
selectors hold was found by the child, and is so still where nothing has changed that they read (`evaluated_objects`).
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

import solver
from scheduler.cluster import Cluster
from scheduler.worker import recording
from scheduler.worker.checked_plan import all_failed
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
    Plan,
    PodId,
    Policy,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Snapshot,
    UndecidedCause,
    Unplaced,
    Violation,
)

_DROPPED: Final = "the solver's plans broke a rule and were dropped"
_MOST_SAVED: Final = 64
"""The number of saved cases that are remembered."""
_SAVE_SECONDS: Final = 30.0
"""The shortest time between two saves: saving a large cluster blocks the shell for half a second."""
_UNIT_SECONDS: Final = 1e-6
"""The approximate time of a cost unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """
    A checked plan for the pods of `asked` that are not `undecided`, and the wall seconds that it took.

    At most `cost_seconds` of the time went into evaluating what was not cached. `file` is where the decision is saved,
    "" where it is not. `seen` is the cluster before an isolated decision.
    """

    asked: Batch
    plan: Plan
    seconds: float
    undecided: Mapping[PodId, UndecidedCause] = field(default_factory=dict)
    cost_seconds: float = 0.0
    file: str = ""
    seen: Snapshot | None = None

    @property
    def batch(self) -> Batch:
        """The pods about which the plan says something."""
        return self.asked.without(self.undecided.keys())

    def undecided_for(self, cause: UndecidedCause) -> Batch:
        """Return the pods that are undecided for a cause."""
        return self.asked.without({pod.id for pod in self.asked.pods if self.undecided.get(pod.id) is not cause})


class Decider:
    """Asks the worker, and says which pods are undecided and why."""

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

    async def wait_until_ready(self) -> None:
        """Wait until there is a worker."""
        if not self._worker.is_ready:
            self._telemetry.no_worker("the worker process is starting")
            await self._worker.wait_until_ready()

    async def warm_up(self, batch: Batch, policy: Policy) -> None:
        """Have the worker decide a batch and drop the plan: its first decision reads the whole cluster."""
        try:
            answer = await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError:
            return
        except WorkerError as error:
            self._telemetry.lost(error, batch)
            return
        self._cluster.quota_usage().learn(answer.charges)  # the worker says of each claim once what it counts

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        """Return a checked plan for the pods that can be decided together now."""
        started, before = self._clock(), self._recorder.begin(self._cluster.snapshot)
        try:
            answer = await self._worker.decide(batch, self._cluster.assumptions(), policy)
        except WorkerAbsentError as error:
            self._telemetry.no_worker(str(error))
            return self._without_plan(batch, UndecidedCause.NO_WORKER, started)
        except WorkerError as error:
            self._telemetry.lost(error, batch)
            if len(batch.pods) == 1 or isinstance(error, SolveFailedError):
                self._save(batch, policy, str(error).strip().rpartition("\n")[2])
            return self._without_plan(batch, UndecidedCause.SUSPECT, started)
        self._telemetry.decided(answer.seconds, self._limits.seconds)
        self._cluster.quota_usage().learn(answer.charges)
        decision = self._checked(batch, policy, answer.plan, answer.violations, started)
        return self._recorded(decision, before, batch, policy, self._limits)

    async def decide_isolated(
        self, batch: Batch, policy: Policy, *, is_costly: bool, is_greedy: bool = False
    ) -> Decision:
        """
        Return a checked plan made by a child of the worker, with the limits of costly pods or those of a batch.

        A decision about costly pods is final: a pod that it cannot decide is unplaced, and not undecided again.
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
        self._cluster.quota_usage().learn(answer.charges)
        decision = self._checked(batch, policy, answer.plan, answer.violations, started, is_isolated=is_costly)
        return self._recorded(replace(decision, seen=seen), before, batch, policy, request.limits)

    async def is_still_valid(self, decision: Decision, policy: Policy) -> bool:
        """Whether the plan of an isolated decision keeps every rule on the present cluster."""
        now, plan = self._cluster.snapshot(), decision.plan
        if decision.seen is None or not are_selectors_settled(decision.seen, now, plan):
            return False
        snapshot = structs.replace(without_selectors(now, plan), quotas=())  # checked before the write, by charges
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
        plan = plan or all_failed(batch, _DROPPED)
        if plan.report.defects:
            self._telemetry.contradicted(plan.report.defects, batch)
            self._save(batch, policy, "the search contradicted itself")
        for each in plan.report.quarantined:
            self._telemetry.quarantined(each)
        undecided = {each.pod: each.cause for each in plan.undecided}
        if not is_isolated:
            failed = {each.pod: UndecidedCause.SUSPECT for each in plan.unplaced if _has_failed(each)}
            undecided |= failed
            plan = structs.replace(plan, unplaced=tuple(each for each in plan.unplaced if each.pod not in failed))
        return self._decision(batch, plan, undecided, started)

    def _without_plan(self, batch: Batch, cause: UndecidedCause, started: float) -> Decision:
        plan = Plan(report=SearchReport(status=SearchStatus.FALLBACK))
        return self._decision(batch, plan, {pod.id: cause for pod in batch.pods}, started)

    def _decision(
        self, batch: Batch, plan: Plan, undecided: Mapping[PodId, UndecidedCause], started: float
    ) -> Decision:
        seconds = self._clock() - started
        cost_seconds = min(seconds, self._limits.cost_units * _UNIT_SECONDS)
        return Decision(asked=batch, plan=plan, seconds=seconds, undecided=undecided, cost_seconds=cost_seconds)

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
        decided = decision.batch
        if before is None or not decided.pods:
            return decision
        record = _record("history", before, decided, policy, limits)
        if len(decided.pods) == len(batch.pods):
            report = decision.plan.report
            record = structs.replace(record, stopped=report.stopped, left_out=report.left_out)
        return replace(decision, file=self._recorder.save(record))


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


def _has_failed(unplaced: Unplaced) -> bool:
    return any(reason.code is ReasonCode.SOLVER_FAILED for reason in unplaced.reasons)
