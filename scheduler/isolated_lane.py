"""
The isolated lane: one decision at a time in a child of the worker process, for which no batch waits.

    divert   remove pods of a batch whose last decision exceeded a limit, or whose namespace has used up its share
    take_in  add pods that a decision left undecided: too costly for a batch, or suspects, which are halved until the
             one with which the worker ends, or a plan breaks a rule, is alone
    run      decide; what exceeds a limit backs off for minutes

The scheduling cycle carries the plans out as its own. This module knows what a decision cost, not what it decides.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from scheduler.cluster import Cluster, split_by_held_room
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.observe.tracebacks import traceback_text
from scheduler.queue import (
    Backoff,
    CostlyBackoff,
    DecisionCostKey,
    DecisionTimeQuota,
    IsolatedJob,
    IsolatedQueue,
    SchedulingQueue,
    cost_key,
)
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.frames import Cause
from scheduler.worker.supervisor import ChildEndedError, SolveFailedError, WorkerError
from solver.domain import SPREAD, Batch, Pod, Policy, Reason, ReasonCode, UndecidedCause

_log: Final = logs.logger()

Ask = Callable[[Batch, Policy], Awaitable[Decision]]
"""Asks for a plan for a batch, as `Decider.decide` does."""
Report = Callable[[Pod, Sequence[Reason]], None]
"""Reports to a user why a pod waits."""
PutBackAll = Callable[[Iterable[Pod], Sequence[Reason]], None]
"""Puts pods back into the scheduling queue."""

_COSTLY: Final = frozenset({ReasonCode.TOO_COSTLY, ReasonCode.SOLVER_FAILED, ReasonCode.BUDGET})
"""Reasons of a pod that a costly decision did not decide: another decision soon would give the same ones."""
_MOST_PROCESS_ENDS: Final = 2
"""So often the whole process ends during a costly decision until that counts as the doing of its pods."""
_MOST_OVERTAKEN: Final = 1024
_PATIENCE_SECONDS: Final = 5.0
"""A pod whose namespace has to wait for longer gets a condition that says so."""
_BACKOFF: Final = Backoff(initial_seconds=30.0, ceiling_seconds=600.0)
"""Backoff after a limit was exceeded: a decision of 20 s every ten minutes is three per cent of one core."""


class PlanExecutor(Protocol):
    """What carries decisions out: the scheduling cycle."""

    async def decide_with(self, batch: Batch, ask: Ask) -> tuple[Decision, bool]:
        """Prepare a batch, have it decided and carry the plan out; return also whether it was still valid."""
        ...

    def give_up(self, pods: Iterable[Pod], reasons: Sequence[Reason]) -> None:
        """Put pods back that could not be decided."""
        ...


class IsolatedLane:
    """Which pods are decided by themselves, when, and what came of it. Times are seconds of `clock`."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        decider: Decider,
        report: Report,
        metrics: Metrics,
        *,
        share: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`share` is the part of the time that one namespace may use for costly decisions."""
        self._scheduling_queue: Final = queue
        self._cluster: Final = cluster
        self._decider: Final = decider
        self._report: Final = report
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._quota: Final = DecisionTimeQuota(share)
        self._backoff: Final = CostlyBackoff(_BACKOFF)
        self._queue: Final = IsolatedQueue(self._quota, self._cost_key)
        self._process_ends: Final[dict[frozenset[str], int]] = {}
        self._overtaken: Final[dict[DecisionCostKey, None]] = {}
        """Cost keys whose last plan was not valid any more when it came."""
        self._changed: Final = asyncio.Event()
        metrics.isolated_pods.set_function(lambda: len(self._queue))
        metrics.parked_specs.set_function(lambda: len(self._backoff))

    def divert(self, batch: Batch, put_back: PutBackAll) -> Batch:
        """Remove the pods from a batch that back off, or are to be decided here. Gangs stay whole."""
        now = self._clock()
        if not batch.pods or not (len(self._backoff) or len(self._quota)):
            return batch
        chosen = {pod.id for pod in batch.pods if self._is_costly(pod, now)}
        gangs = {pod.gang for pod in batch.pods if pod.id in chosen and pod.gang is not None}
        pods = [pod for pod in batch.pods if pod.id in chosen or pod.gang in gangs]
        if not pods:
            return batch
        for pod in pods:
            if self._backoff.until(self._cost_key(pod), now) is not None:
                put_back((pod,), self._backoff.reasons(self._cost_key(pod)))
            else:
                self._add((pod,), now)
        return batch.without({pod.id for pod in pods})

    def take_in(self, decision: Decision) -> None:
        """Add the pods that the decision of a batch left for this lane; their namespaces pay for what it cost."""
        now, causes = self._clock(), decision.undecided.items()
        namespaces = {pod.namespace for pod, cause in causes if cause is UndecidedCause.TOO_COSTLY}
        for namespace in namespaces:
            self._quota.spend(namespace, decision.cost_seconds / len(namespaces), now)
        self._add_undecided(decision, now)

    def _add_undecided(self, decision: Decision, now: float) -> None:
        self._add(decision.undecided_for(UndecidedCause.TOO_COSTLY).pods, now)
        self._queue.suspect(decision.undecided_for(UndecidedCause.SUSPECT).pods)
        self._changed.set()

    def forget(self, pod_uid: str) -> None:
        """Remove a pod that was deleted, bound or changed."""
        self._queue.forget(pod_uid)

    def backoff(self, pod: Pod, reasons: Sequence[Reason]) -> tuple[float | None, Sequence[Reason]]:
        """
        Return until when a pod backs off that is put back with these reasons, and the reasons to report.

        The time is None where they do not say that its decision was too costly or failed.
        """
        if not any(reason.code in _COSTLY for reason in reasons):
            return None, reasons
        now = self._clock()
        until = self._backoff.until(self._cost_key(pod), now)
        if until is None:
            return None, reasons
        first, *others = reasons
        message = f"{first.message}; the scheduler tries again in {_spoken(until - now)}"
        return until, (Reason(code=first.code, message=message), *others)

    async def run(self, carrier: PlanExecutor) -> None:
        """Make costly decisions for ever."""
        while True:
            job = await self._next()
            await self._decider.wait_until_ready()
            started = self._clock()
            outcome = "failed"
            try:
                outcome = await self._decide(job, carrier)
            except Exception as error:  # noqa: BLE001 - a defect that meets one decision must not end all others
                _log.error(logs.SOLVER_FAILED, error=traceback_text(error), batch=len(job.pods))
                self._back_off(job, (*job.pods, *job.rest), _WHY[Cause.CRASH], carrier)
            finally:
                seconds = self._clock() - started
                if job.key is not None:
                    self._quota.spend(job.namespace, seconds, self._clock())
                self._metrics.isolated_decisions.labels(outcome).inc()
                self._metrics.isolated_seconds.inc(seconds)

    async def _next(self) -> IsolatedJob:
        while True:
            self._changed.clear()
            now = self._clock()
            job = self._queue.take(now)
            if job is not None:
                return job
            due = self._queue.due(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._changed.wait()

    async def _decide(self, job: IsolatedJob, carrier: PlanExecutor) -> str:
        """Decide one job; return how it ended, as the label of the series."""
        pods = self._present(job.pods)
        if not pods:
            self._scheduling_queue.give_back(job.rest, self._clock())
            return "gone"
        if job.key is not None and self._backoff.until(job.key, self._clock()) is not None:
            carrier.give_up([*pods, *self._present(job.rest)], self._backoff.reasons(job.key))
            return "parked"
        is_greedy = job.key is not None and self._backoff.failures(job.key) > 0
        decided, keys = set[str](), {self._cost_key(pod) for pod in pods}

        async def ask(batch: Batch, policy: Policy) -> Decision:
            if not self._overtaken.keys().isdisjoint(keys):
                # Batches pack. So this plan spreads, onto devices that they do not take meanwhile.
                policy = msgspec.structs.replace(policy, levels=SPREAD)
            is_costly = job.key is not None
            decision = await self._decider.decide_isolated(batch, policy, is_costly=is_costly, is_greedy=is_greedy)
            self._note(job, decision)
            return decision

        try:
            for part in tuple(
                split_by_held_room(Batch(pods=pods), self._cluster.nominated(), self._cluster.holds.values())
            ):
                decision, held = await carrier.decide_with(part, ask)
                self._note_overtaken(keys, held=held)
                decided |= {pod.uid for pod in part.pods}
                later = decision.undecided_for(UndecidedCause.LATER)
                self._scheduling_queue.give_back(later.pods, self._clock())
        except (ChildEndedError, SolveFailedError) as error:
            return self._ended(job, [pod for pod in pods if pod.uid not in decided], error, carrier)
        except WorkerError as error:
            return self._process_ended(job, [pod for pod in pods if pod.uid not in decided], error, carrier)
        self._process_ends.pop(frozenset(pod.uid for pod in job.pods), None)
        self._scheduling_queue.give_back(job.rest, self._clock())
        return "parked" if job.key is not None and self._backoff.has_failed(job.key) else "decided"

    def _note(self, job: IsolatedJob, decision: Decision) -> None:
        """Note before a decision is carried out whether it kept the limits, so that batches may have its pods again."""
        now = self._clock()
        if job.key is None:
            self._add_undecided(decision, now)
            return
        failed = [each for each in decision.plan.unplaced if any(reason.code in _COSTLY for reason in each.reasons)]
        if failed:
            self._backoff.failed(job.key, failed[0].reasons, now)
        else:
            self._backoff.succeeded(job.key)

    def _note_overtaken(self, keys: Iterable[DecisionCostKey], *, held: bool) -> None:
        for key in keys:
            self._overtaken.pop(key, None)
            if not held:
                self._overtaken[key] = None
        while len(self._overtaken) > _MOST_OVERTAKEN:
            del self._overtaken[next(iter(self._overtaken))]

    def _ended(self, job: IsolatedJob, pods: Sequence[Pod], error: WorkerError, carrier: PlanExecutor) -> str:
        """Halve suspects whose decision was ended; have a cost key back off that was alone in it."""
        if job.key is None:
            self._queue.suspect(pods)
            return "divided"
        cause = error.cause if isinstance(error, ChildEndedError) else Cause.CRASH
        self._back_off(job, [*pods, *job.rest], _WHY[cause], carrier)
        return "parked"

    def _back_off(self, job: IsolatedJob, pods: Iterable[Pod], why: Reason, carrier: PlanExecutor) -> None:
        """Have the cost keys of a job back off, and put its pods back."""
        for key in {self._cost_key(pod) for pod in job.pods}:
            self._backoff.failed(key, (why,), self._clock())
        carrier.give_up(self._present(pods), (why,))

    def _process_ended(self, job: IsolatedJob, pods: Sequence[Pod], error: WorkerError, carrier: PlanExecutor) -> str:
        """Decide again where the whole process ended, most likely by a batch; not for ever."""
        key = frozenset(pod.uid for pod in job.pods)
        self._process_ends[key] = self._process_ends.get(key, 0) + 1
        if self._process_ends[key] >= _MOST_PROCESS_ENDS:
            del self._process_ends[key]
            return self._ended(job, pods, error, carrier)
        (self._queue.add if job.key is not None else self._queue.suspect)([*pods, *job.rest])
        return "lost"

    def _cost_key(self, pod: Pod) -> DecisionCostKey:
        """Return the cost key of a pod; one that raises has its own."""
        try:
            return cost_key(pod, self._cluster.claim)
        except Exception:  # noqa: BLE001 - whatever one pod raises, the others are decided
            return DecisionCostKey(pod.id.namespace, hash(pod.uid))

    def _is_costly(self, pod: Pod, now: float) -> bool:
        key = self._cost_key(pod)
        is_exhausted = self._quota.is_exhausted(key.namespace, now) and not self._backoff.is_proven(key)
        return self._backoff.has_failed(key) or is_exhausted

    def _add(self, pods: Iterable[Pod], now: float) -> None:
        """Add costly pods; report it where their namespace has to wait for its share."""
        pods = tuple(pods)
        self._queue.add(pods)
        self._scheduling_queue.set_aside(pods)
        for pod in pods:
            seconds = self._quota.free_at(pod.id.namespace, now) - now
            if seconds > _PATIENCE_SECONDS:
                message = f"{_EXHAUSTED} The scheduler decides about it in about {_spoken(seconds)}"
                self._report(pod, (Reason(code=ReasonCode.TOO_COSTLY, message=message),))
        if pods:
            self._changed.set()

    def _present(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Return the present versions of the pods that are still in flight."""
        found = (self._scheduling_queue.in_flight(pod.id, pod.uid) for pod in pods)
        return tuple(pod for pod in found if pod is not None)


_EXHAUSTED: Final = "the pods of its namespace have used up their share of the time for costly decisions."
_SIMPLER: Final = (
    "write selectors without nested loops and with short regular expressions, and fewer alternatives and constraints"
)
_WHY: Final = {
    Cause.TIME: Reason(
        code=ReasonCode.TOO_COSTLY, message=f"the decision about the pod took too long and was ended: {_SIMPLER}"
    ),
    Cause.MEMORY: Reason(
        code=ReasonCode.TOO_COSTLY, message=f"the decision about the pod took too much memory and was ended: {_SIMPLER}"
    ),
    Cause.CRASH: Reason(code=ReasonCode.SOLVER_FAILED, message="the solver fails on this pod alone, which is a defect"),
}


def _spoken(seconds: float) -> str:
    """Write a time in seconds or minutes."""
    whole = max(1, round(seconds))
    return f"{whole} s" if whole < 120 else f"{round(whole / 60)} min"  # noqa: PLR2004 - two minutes
