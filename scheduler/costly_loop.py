"""
The second loop: decisions aside, which no batch waits for.

    divert   pods of a batch whose last decision broke a limit, or whose namespace has used up its share
    take in  pods that a decision found too costly, and those with which the process ended
    run      one decision at a time, in a child of the solver's process; what breaks a limit rests for minutes

The cycle carries the plans out as it does its own. Only what a decision cost is known here, not what it decides.
"""

import asyncio
import contextlib
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from scheduler.cluster import Cluster, split_by_nominations
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.queue import AsideQueue, Backoff, Credit, Job, Parking, Pending, SpecKey, kin_of
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.frames import Cause
from scheduler.worker.supervisor import ChildEndedError, SolveFailedError, WorkerError
from solver.domain import SPREAD, Batch, Pod, Policy, Reason, ReasonCode

_log: Final = logs.logger()

Ask = Callable[[Batch, Policy], Awaitable[Decision]]
"""Asks for a plan for a batch, as `Decider.decide` does."""
Tell = Callable[[Pod, Sequence[Reason]], None]
"""Tells a user why a pod waits."""

_PARKS: Final = frozenset({ReasonCode.TOO_COSTLY, ReasonCode.SOLVER_FAILED, ReasonCode.BUDGET})
"""What a costly decision may say of a pod that it could not decide about: another one soon would say the same."""
_MOST_LOSSES: Final = 2
"""Times that the whole process may end during a decision aside until that counts as its own doing."""
_MOST_OVERTAKEN: Final = 1024
_PATIENCE_SECONDS: Final = 5.0
"""Pods whose namespace has to wait for longer are told so."""
_BACKOFF: Final = Backoff(initial_seconds=30.0, ceiling_seconds=600.0)
"""How long what broke a limit rests: a decision of 20 s every ten minutes is three per cent of one core."""


class Carrier(Protocol):
    """What carries decisions out: the cycle."""

    async def decide_with(self, batch: Batch, ask: Ask) -> tuple[Decision, bool]:
        """Prepare a batch, have it decided and begin what was decided; whether that still held is given too."""
        ...

    def give_up(self, pods: Iterable[Pod], reasons: Sequence[Reason]) -> None:
        """Put pods back that could not be decided about."""
        ...


class Asides:
    """Which pods are decided aside, when, and what that did. Times are seconds of `clock`."""

    def __init__(
        self,
        cluster: Cluster,
        pending: Pending,
        decider: Decider,
        tell: Tell,
        metrics: Metrics,
        *,
        share: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`share` is the part of the time that one namespace may use for costly decisions."""
        self._pending: Final = pending
        self._cluster: Final = cluster
        self._decider: Final = decider
        self._tell: Final = tell
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._credit: Final = Credit(share)
        self._parking: Final = Parking(_BACKOFF)
        self._queue: Final = AsideQueue(self._credit, self._kin)
        self._lost: Final[dict[frozenset[str], int]] = {}
        self._overtaken: Final[dict[SpecKey, None]] = {}
        """Kin whose last plan did not hold any more when it came: those that were overtaken last."""
        self._changed: Final = asyncio.Event()
        metrics.isolated_pods.set_function(lambda: len(self._queue))
        metrics.parked_specs.set_function(lambda: len(self._parking))

    def divert(self, batch: Batch, carrier: Carrier) -> Batch:
        """Take the pods out of a batch that rest, or are to be decided aside; give the rest. Gangs stay whole."""
        now = self._clock()
        if not batch.pods or not (len(self._parking) or len(self._credit)):
            return batch
        chosen = {pod.id for pod in batch.pods if self._is_for_aside(pod, now)}
        gangs = {pod.gang for pod in batch.pods if pod.id in chosen and pod.gang is not None}
        pods = [pod for pod in batch.pods if pod.id in chosen or pod.gang in gangs]
        if not pods:
            return batch
        for pod in pods:
            if self._parking.until(self._kin(pod), now) is not None:
                carrier.give_up((pod,), self._parking.why(self._kin(pod)))
            else:
                self._add((pod,), now)
        return batch.without({pod.id for pod in pods})

    def take_in(self, decision: Decision) -> None:
        """Let the pods wait that a decision of a batch left for one aside; what it has cost is paid for."""
        now, costly = self._clock(), decision.costly.pods
        namespaces = {pod.id.namespace for pod in costly}
        for namespace in namespaces:
            self._credit.spend(namespace, decision.cost_seconds / len(namespaces), now)
        self._add(costly, now)
        if decision.suspects.pods:
            self._queue.suspect(decision.suspects.pods)
        self._changed.set()

    def forget(self, pod_uid: str) -> None:
        """Drop a pod that is gone, bound or changed."""
        self._queue.forget(pod_uid)

    def rest(self, pod: Pod, reasons: Sequence[Reason]) -> tuple[float | None, Sequence[Reason]]:
        """
        Give until when a pod rests that is put back with these reasons, and the reasons to tell.

        The time is None where they do not say that a decision about it was too costly or failed.
        """
        if not any(reason.code in _PARKS for reason in reasons):
            return None, reasons
        now = self._clock()
        until = self._parking.until(self._kin(pod), now)
        if until is None:
            return None, reasons
        first, *others = reasons
        said = f"{first.message}; it is tried again in {_spoken(until - now)}"
        return until, (Reason(code=first.code, message=said), *others)

    async def run(self, carrier: Carrier) -> None:
        """Decide aside for ever."""
        while True:
            await self._decider.wait_until_ready()
            job = await self._next()
            started = self._clock()
            outcome = "failed"
            try:
                outcome = await self._decide(job, carrier)
            except Exception:  # noqa: BLE001 - a defect that meets one decision must not end all others
                _log.error(logs.SOLVER_FAILED, error=traceback.format_exc(limit=-20), batch=len(job.pods))
                self._park(job, (*job.pods, *job.rest), _WHY[Cause.CRASH], carrier)
            finally:
                seconds = self._clock() - started
                if job.kin is not None:
                    self._credit.spend(job.namespace, seconds, self._clock())
                self._metrics.isolated_decisions.labels(outcome).inc()
                self._metrics.isolated_seconds.inc(seconds)

    async def _next(self) -> Job:
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

    async def _decide(self, job: Job, carrier: Carrier) -> str:
        """Decide one job; give how it ended, in the words of the series."""
        pods = self._present(job.pods)
        if not pods:
            self._pending.give_back(job.rest, self._clock())
            return "gone"
        if job.kin is not None and self._parking.until(job.kin, self._clock()) is not None:
            carrier.give_up([*pods, *self._present(job.rest)], self._parking.why(job.kin))
            return "parked"
        is_greedy = job.kin is not None and self._parking.breaks(job.kin) > 0
        decided, kins = set[str](), {self._kin(pod) for pod in pods}

        async def ask(batch: Batch, policy: Policy) -> Decision:
            if not self._overtaken.keys().isdisjoint(kins):
                # The batches pack: what they take meanwhile is elsewhere.
                policy = msgspec.structs.replace(policy, levels=SPREAD)
            is_costly = job.kin is not None
            decision = await self._decider.decide_isolated(batch, policy, is_costly=is_costly, is_greedy=is_greedy)
            self._note(job, decision)
            return decision

        try:
            for part in tuple(split_by_nominations(Batch(pods=pods), self._cluster.nominated())):
                decision, held = await carrier.decide_with(part, ask)
                self._note_overtaken(kins, held=held)
                decided |= {pod.uid for pod in part.pods}
                self._pending.give_back(decision.later.pods, self._clock())
        except (ChildEndedError, SolveFailedError) as error:
            return self._break(job, [pod for pod in pods if pod.uid not in decided], error, carrier)
        except WorkerError as error:
            return self._lose(job, [pod for pod in pods if pod.uid not in decided], error, carrier)
        self._lost.pop(frozenset(pod.uid for pod in job.pods), None)
        self._pending.give_back(job.rest, self._clock())
        return "parked" if job.kin is not None and self._parking.is_known(job.kin) else "decided"

    def _note(self, job: Job, decision: Decision) -> None:
        """Note what a decision cost, before it is carried out: a kin that kept the limits goes with others again."""
        now = self._clock()
        if job.kin is None:
            self._add(decision.costly.pods, now)
            if decision.suspects.pods:
                self._queue.suspect(decision.suspects.pods)
            return
        broken = [each for each in decision.plan.unplaced if any(reason.code in _PARKS for reason in each.reasons)]
        if broken:
            self._parking.broke(job.kin, broken[0].reasons, now)
        else:
            self._parking.survived(job.kin)

    def _note_overtaken(self, kins: Iterable[SpecKey], *, held: bool) -> None:
        for kin in kins:
            self._overtaken.pop(kin, None)
            if not held:
                self._overtaken[kin] = None
        while len(self._overtaken) > _MOST_OVERTAKEN:
            del self._overtaken[next(iter(self._overtaken))]

    def _break(self, job: Job, pods: Sequence[Pod], error: WorkerError, carrier: Carrier) -> str:
        """Divide suspects further where a decision was ended; let a kin rest that was alone in it."""
        if job.kin is None:
            self._queue.suspect(pods)
            return "divided"
        cause = error.cause if isinstance(error, ChildEndedError) else Cause.CRASH
        self._park(job, [*pods, *job.rest], _WHY[cause], carrier)
        return "parked"

    def _park(self, job: Job, pods: Iterable[Pod], why: Reason, carrier: Carrier) -> None:
        """Let the kin of a job rest, and put its pods back."""
        for kin in {self._kin(pod) for pod in job.pods}:
            self._parking.broke(kin, (why,), self._clock())
        carrier.give_up(self._present(pods), (why,))

    def _lose(self, job: Job, pods: Sequence[Pod], error: WorkerError, carrier: Carrier) -> str:
        """Decide again where the whole process ended, by a batch most likely; not for ever."""
        key = frozenset(pod.uid for pod in job.pods)
        self._lost[key] = self._lost.get(key, 0) + 1
        if self._lost[key] >= _MOST_LOSSES:
            del self._lost[key]
            return self._break(job, pods, error, carrier)
        (self._queue.add if job.kin is not None else self._queue.suspect)([*pods, *job.rest])
        return "lost"

    def _kin(self, pod: Pod) -> SpecKey:
        """Give the kin of a pod; one that raises is like no other."""
        try:
            return kin_of(pod, self._cluster.claim)
        except Exception:  # noqa: BLE001 - whatever one pod raises, the others are decided
            return SpecKey(pod.id.namespace, hash(pod.uid))

    def _is_for_aside(self, pod: Pod, now: float) -> bool:
        kin = self._kin(pod)
        is_in_debt = self._credit.is_in_debt(kin.namespace, now) and not self._parking.is_proven(kin)
        return self._parking.is_known(kin) or is_in_debt

    def _add(self, pods: Iterable[Pod], now: float) -> None:
        """Let costly pods wait; say so to those whose namespace has to wait for its share."""
        pods = tuple(pods)
        self._queue.add(pods)
        for pod in pods:
            seconds = self._credit.free_at(pod.id.namespace, now) - now
            if seconds > _PATIENCE_SECONDS:
                message = f"{_OWES} It is decided in about {_spoken(seconds)}"
                self._tell(pod, (Reason(code=ReasonCode.TOO_COSTLY, message=message),))
        if pods:
            self._changed.set()

    def _present(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Give the pods as they are now that still wait for this decision."""
        found = (self._pending.in_flight(pod.id, pod.uid) for pod in pods)
        return tuple(pod for pod in found if pod is not None)


_OWES: Final = "pods of its namespace have used up the namespace's share of the time for costly decisions."
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
    """Write a time as people say it."""
    whole = max(1, round(seconds))
    return f"{whole} s" if whole < 120 else f"{round(whole / 60)} min"  # noqa: PLR2004 - two minutes
