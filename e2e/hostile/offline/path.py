"""
The way of an object through Dovetail, with the parts that the shell and the worker process are made of.

Bytes of a watch → `Mirrored` → `Change` → mirror, queue, and by `frames` the replica → batch → `solve` → `verify` →
units → assumed → what is written. No API server and no task: everything is called as the shell calls it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from e2e.hostile.objects.draw import written
from e2e.hostile.objects.kinds import Manifest
from scheduler.change import Change, Kind, without_ended
from scheduler.cluster import Cluster, split_by_held_room, split_plan
from scheduler.kube import encode
from scheduler.kube.decode.pieces import at_once
from scheduler.kube.watching.list_watch import ListWatch, Received
from scheduler.queue import EquivalenceKeys, QueuedGangs, SchedulingQueue
from scheduler.settings import default
from scheduler.status.conditions import condition_message, condition_reason
from scheduler.worker import frames
from scheduler.worker.decision_limits import of_batches, of_costly
from solver import SolverCache, solve
from solver.diagnosis import explain_pod
from solver.domain import (
    Batch,
    Budget,
    ConsumerReference,
    Plan,
    Pod,
    Policy,
    Reason,
    ReasonCode,
    Snapshot,
    UndecidedCause,
    Violation,
)
from solver.verify import VerifierCache, check

SCHEDULERS: Final = ("dovetail",)
_MOST_PODS: Final = 1000
_MOST_DECISIONS: Final = 40
_LENGTH_BYTES: Final = 8
_SECONDS: Final = 60.0
_DETERMINISTIC_SECONDS: Final = 0.2


class Decided(NamedTuple):
    """One decision: the snapshot, the pods, the plan, and what is wrong with it."""

    snapshot: Snapshot
    batch: Batch
    plan: Plan
    violations: tuple[Violation, ...]


class Path:
    """The shell's parts and the replica of the worker process, for one small cluster."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.replica = Cluster()
        self._watches = {kind: ListWatch(kind) for kind in Kind}
        self._pending = SchedulingQueue(
            SCHEDULERS,
            key_of=EquivalenceKeys(self.cluster.claim, lambda _: False, lambda _: False).of,
            gangs=QueuedGangs(lambda gang: self.cluster.gang_progress(gang, SCHEDULERS)),
        )
        self._engine = SolverCache()
        self._verifier_cache = VerifierCache()
        self._policy: Policy = default().policy(SCHEDULERS[0])
        self._now = 0.0
        self.unreadable: list[str] = []

    def receive(self, kind: Kind, event: str, manifest: Manifest) -> None:
        """Take one event of a watch as the shell does."""
        line = written({"type": event, "object": manifest})
        received = Received()
        at_once(self._watches[kind].receive_lines([line], received))
        self.unreadable += [str(each) for each in received.problems]
        for change in without_ended(received.changes):
            self._see(change)

    def _see(self, change: Change) -> None:
        raw = frames.encode_change(change)
        transitions = self.cluster.apply(change)
        if not transitions:
            return
        self.replica.apply(frames.decode_change(raw))
        if isinstance(change.value, Pod):
            self._pending.offer(change.value, self._now)
        for transition in transitions:
            if change.value is None and isinstance(transition.before, Pod):
                self._pending.remove(transition.before.id)
            self._pending.wake(transition)

    def decide(self) -> list[Decided]:
        """Decide about every pod that waits, batch after batch."""
        self._now += 1000.0
        decided: list[Decided] = []
        while len(decided) < _MOST_DECISIONS:
            batch = self._pending.take_batch(self._now, _MOST_PODS)
            if not batch.pods:
                break
            for apart in split_by_held_room(batch, self.cluster.nominated(), self.cluster.holds.values()):
                decided += self._decide_whole(apart)
        return decided

    def _decide_whole(self, rest: Batch) -> Iterator[Decided]:
        """Decide about a batch, and then about those that the plan leaves for later, or for a decision aside."""
        may_defer = True
        while rest.pods:
            order = self._sent(self.cluster.with_gangs(rest))
            snapshot = self.replica.snapshot(order.assumptions)
            plan = solve(snapshot, order.batch, order.policy, _budget(is_aside=not may_defer), self._engine)
            later = frozenset(plan.undecided_pods())
            may_defer = not plan.undecided_pods(UndecidedCause.TOO_COSTLY)
            batch = order.batch.without(later)
            violations = check(snapshot, batch, plan, order.policy, self._verifier_cache)
            answer = msgspec.json.decode(
                frames.encode(frames.Decided(id=1, plan=plan))[_LENGTH_BYTES:], type=frames.Answer
            )
            assert isinstance(answer, frames.Decided)
            assert answer.plan is not None
            self._take(batch, answer.plan)
            yield Decided(snapshot, batch, answer.plan, violations)
            rest = order.batch.without({pod.id for pod in batch.pods}) if later else Batch(pods=())

    def _sent(self, batch: Batch) -> frames.Decide:
        """Send a batch through a frame, as to the worker process."""
        order = frames.Decide(
            id=1,
            cost_units=of_batches(default().solver).cost_units,
            batch=batch,
            assumptions=self.cluster.assumptions(),
            policy=self._policy,
            seconds=_SECONDS,
            deterministic_seconds=_DETERMINISTIC_SECONDS,
            seed=0,
            workers=1,
        )
        received = msgspec.json.decode(frames.encode(order)[_LENGTH_BYTES:], type=frames.Order)
        assert isinstance(received, frames.Decide)
        return received

    def _take(self, batch: Batch, plan: Plan) -> None:
        """Do with a plan what the shell does: assume, write, settle, tell, put back."""
        pods = {pod.id: pod for pod in batch.pods}
        self._pending.placed(each.pod for each in plan.placements)
        for unit in split_plan(plan, batch):
            if self.cluster.check(unit):
                continue
            self.cluster.assume(unit)
            for placement in unit.placements:
                encode.binding(placement.pod, placement.pod_uid, placement.node)
                self._pending.remove(placement.pod)
            for each in unit.allocations:
                claim = self.cluster.observed_claim(each.claim)
                if claim is not None:
                    consumers = [ConsumerReference.of(pod.pod, pod.pod_uid) for pod in unit.placements]
                    encode.allocation_patch(claim, each.allocation, consumers)
            for placement in unit.placements:
                self.cluster.settled(placement)
        for unplaced in plan.unplaced:
            told(unplaced.reasons, plan.report.node_count or 0)
            self._pending.put_back(unplaced.pod, pods[unplaced.pod].uid, unplaced.reasons, self._now)

    def explain(self, decided: Decided, limit: int) -> None:
        """PodDiagnosis for the first pods of a batch, as `dovetail explain` does."""
        for pod in decided.batch.pods[:limit]:
            batch = Batch(pods=(pod,), gangs=decided.batch.gangs_of((pod,)))
            explain_pod(decided.snapshot, batch, pod, self._policy, _budget(is_aside=True))


def told(reasons: Sequence[Reason], node_count: int) -> str:
    """Compose the condition of a pod that waits, as it is sent."""
    reason = condition_reason(reasons)
    message = condition_message(reasons, node_count)
    return json.dumps([reason, message])


def failed(plan: Plan) -> Iterable[str]:
    """Name the pods about which the solver could not say anything."""
    return (
        str(each.pod)
        for each in plan.unplaced
        if any(reason.code is ReasonCode.SOLVER_FAILED for reason in each.reasons)
    )


def _budget(*, is_aside: bool) -> Budget:
    """Give the allowance of a batch, or of a costly decision beside the batches; work ends the search, not time."""
    solver = default().solver
    limits = of_costly(solver) if is_aside else of_batches(solver)
    return Budget(
        seconds=_SECONDS,
        deterministic_seconds=_DETERMINISTIC_SECONDS,
        cost_units=limits.cost_units,
        may_defer=not is_aside,
        is_forgiving=True,
    )
