"""
The two loops, on one page.

    see      changes of the watch → mirror, queue, solver's replica
    decide   take a batch · solve · split into units · assume
    commit   check · write · confirm or forget · put back (`settlement`)

They overlap: the writes of the last plan go on while the next batch is solved. When nothing is under way a pod is
decided at once; a batch collects only while a solve or the writes of the plan before the last are. What is costly to
decide about is decided beside the batches (`aside`), and carried out between two of them.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

import msgspec

from scheduler.binding_cycle import Settlement, names
from scheduler.change import Change, Kind, Object
from scheduler.cluster import Intake, Transition, Unit, split_by_nominations, split_plan
from scheduler.components import Parts
from scheduler.costly_loop import Ask
from scheduler.observe import logs
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks
from scheduler.queue import Shapes
from scheduler.worker.decider import Decision
from solver import missing_claims
from solver.domain import Batch, ClaimId, Pod, PodId, Policy, Reason, ReasonCode

_UNITS_BEHIND: Final = 64
"""Units of earlier plans that may still be written when the next batch is taken: stragglers hold nobody up."""
_DECISIONS: Final = 3
"""Decisions about a batch: what is not hard, small hard parts, and the large ones (see `solver.search.decompose`)."""
_DEFECT: Final = (
    Reason(code=ReasonCode.SOLVER_FAILED, message="an unexpected error ended the decision; it is tried again"),
)

_OVERTAKEN: Final = Reason(
    code=ReasonCode.CONFLICT, message="the cluster changed while the decision was made; it is made anew"
)

_log: Final = logs.logger()


class Cycle:
    """Moves pods from the watch to their nodes. `policies` are by schedulerName; every batch is of one of them."""

    def __init__(
        self,
        parts: Parts,
        policies: Mapping[str, Policy],
        max_pods: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._parts: Final = parts
        self._policies: Final = dict(policies)
        self._max_pods: Final = max_pods
        self._clock: Final = clock
        self._intake: Final = Intake(parts.cluster)
        self._settlement: Final = Settlement(parts, self._wake, self._put_back, clock=clock, sleep=sleep)
        self._confined: Final = partial(Confined, parts.metrics)
        self._changed: Final = asyncio.Event()
        self._ended: Final = asyncio.Event()
        self._turn: Final = asyncio.Lock()
        self._commits: Final = Tasks(parts.metrics, Subsystem.COMMIT, self._ended.set)
        self._nodes: Final[set[str]] = set()
        parts.tally.connect(parts.pending.counts)
        self._last_units = 0
        self._seconds_of_others = 0.0
        parts.waits.connect(self.see, self._ended.set)
        parts.pending.connect(Shapes(parts.cluster.claim, self._is_apart, self._is_overdue).of)

    def see(self, changes: Sequence[Change]) -> None:
        """Take what a watch told."""
        parts, now = self._parts, self._clock()
        for told in changes:
            change, transitions, problem = self._intake.take(told)
            (parts.quarantine.unusable(told, problem) if problem else parts.quarantine.usable(told))
            if not transitions:
                continue
            parts.worker.note(change)
            try:
                self._follow(change, transitions, now)
            except Exception as error:  # noqa: BLE001 - whatever one object raises, all others are followed
                parts.quarantine.unusable(change, f"{type(error).__name__}: {error}")
                if change.kind is Kind.PODS:
                    parts.pending.drop(PodId(*change.key.split("/", 1)))

    def _follow(self, change: Change, transitions: Sequence[Transition], now: float) -> None:
        """Have the queue and those that wait follow what the mirror has taken."""
        if change.kind is Kind.PODS:
            self._see_pod(change.value, transitions, now)
        elif change.kind is Kind.NODES:
            (self._nodes.discard if change.value is None else self._nodes.add)(change.key)
        elif change.kind is Kind.POD_GROUPS:
            self._parts.groups.see(transitions[0])
        self._wake(transitions)
        self._parts.waits.see(change)

    async def decide(self) -> None:
        """Decide about pods for ever."""
        while True:
            await self._wait_for_work()
            await self._wait_for_room()
            await asyncio.sleep(0)  # a crowd whose claims are late is put back, batch after batch, without any wait
            await self._parts.decider.wait_until_able()
            batch = self._parts.pending.take_batch(self._clock(), self._max_pods)
            for part in self._divide(self._parts.asides.divert(self._without_late(batch), self)):
                whole = msgspec.structs.replace(part, gangs=self._parts.cluster.gangs(part.pods))
                await self._decide_apart(whole)

    async def _decide_apart(self, batch: Batch) -> None:
        """
        Decide about the parts of a batch that see different room held.

        Pods with a node nominated come alone, after the others, against which their room is held. Together they have
        the time that the others took last: however many of them there are, the others wait no more than twice as long.
        Those that are left come with the next batch.
        """
        nominated = self._parts.cluster.nominated()
        holders, alone, together = {pod.id for pod in nominated}, 0.0, 0.0
        parts = sorted(
            split_by_nominations(batch, nominated), key=lambda part: not holders.isdisjoint(pod.id for pod in part.pods)
        )
        for part in parts:
            started = self._clock()
            if holders.isdisjoint(pod.id for pod in part.pods):
                await self._decide_whole(part)
                together += self._clock() - started
            elif alone <= self._seconds_of_others:
                await self._decide_whole(part)
                alone += self._clock() - started
            else:
                self._parts.pending.give_back(part.pods, started)
        self._seconds_of_others = together or self._seconds_of_others

    async def finish(self, seconds: float) -> bool:
        """Wait for the writes that are under way, at most so long; give whether all have ended. Cancel the rest."""
        have_ended = await self._commits.finish(seconds)
        await self._parts.evictions.finish()
        return have_ended

    def _without_late(self, batch: Batch) -> Batch:
        """Put back whose claims are still to be made, as nearly every pod's are at first: the solver knows no more."""
        started, late = self._clock(), set[PodId]()
        for pod in batch.pods:
            if reasons := missing_claims(pod, self._has_claim):
                late.add(pod.id)
                self._parts.metrics.unplaced_pods.labels(ReasonCode.CLAIM_MISSING).inc()
                self._put_back(pod, reasons, started)
                if self._parts.passed_over.let_go(pod.uid):
                    self._release()
        return batch.without(late)

    def _has_claim(self, claim: ClaimId) -> bool:
        return self._parts.cluster.claim(claim) is not None

    async def _decide_whole(self, batch: Batch) -> None:
        """
        Decide about a batch, then about what is hard in it, small parts first: each has a budget of its own.

        What is left then comes with the next batch, beside the pods that have come meanwhile.
        """
        for _ in range(_DECISIONS):
            batch = await self._decide_once(batch)
        self._parts.pending.give_back(batch.pods, self._clock(), was_tried=True)

    async def _decide_once(self, batch: Batch) -> Batch:
        """Decide about a batch, and give the pods that want a decision of their own next."""
        if not batch.pods:
            return batch
        async with self._turn:
            started, decision = self._clock(), None
            with self._confined(Subsystem.DECISION, pods=[str(pod.id) for pod in batch.pods]):
                prepared, policy = self._prepared(batch, started)
                decision = await self._parts.decider.decide(prepared, policy)
            if decision is None:
                self.give_up(batch.pods, _DEFECT)
                return Batch(pods=())
            self._carry_out(decision, started)
        self._parts.asides.take_in(decision)
        self._parts.pending.give_back(decision.deferred.pods, self._clock())
        return decision.later

    async def decide_with(self, batch: Batch, ask: Ask) -> tuple[Decision, bool]:
        """
        Decide about a batch aside, and begin what was decided where it still holds.

        Batches have been decided and assumed meanwhile. What they took is seen in the turn between two of them: then
        the plan is checked whole against the cluster as it is now, and the next batch knows what it takes.
        """
        started = self._clock()
        batch, policy = self._prepared(batch, started)
        pending = self._parts.pending
        takings = {pod.id: pending.taking(pod.id) for pod in batch.pods}
        decision = await ask(batch, policy)
        async with self._turn:
            is_valid = await self._parts.decider.is_still_valid(decision, policy)
            # One that left the queue meanwhile and came back is decided about by others.
            returned = {key for key, taking in takings.items() if pending.taking(key) not in {None, taking}}
            if is_valid and not returned:
                self._carry_out(decision, started)
            else:
                self.give_up((pod for pod in decision.batch.pods if pod.id not in returned), (_OVERTAKEN,))
        return decision, is_valid and not returned

    def give_up(self, pods: Iterable[Pod], reasons: Sequence[Reason]) -> None:
        """Put pods back that could not be decided about."""
        for pod in pods:
            self._put_back(pod, reasons, self._clock())

    def _prepared(self, batch: Batch, now: float) -> tuple[Batch, Policy]:
        """Say of a batch of one profile what its pods' history is, and by which rules it is decided."""
        batch = msgspec.structs.replace(batch, gangs=self._parts.cluster.gangs(batch.pods))
        profile = batch.pods[0].scheduler_name
        batch = self._parts.waits.restraint.applied(self._parts.passed_over.marked(batch, now))
        return batch, self._parts.evictions.allowed(profile, self._policies[profile])

    def _carry_out(self, decision: Decision, started: float) -> None:
        """Assume what was decided and begin to write it; put back who has no place."""
        batch, plan = decision.batch, decision.plan
        if not batch.pods:
            return
        profile, pods, units = batch.pods[0].scheduler_name, {pod.id: pod for pod in batch.pods}, None
        with self._confined(Subsystem.DECISION, pods=[str(pod.id) for pod in batch.pods]):
            units = split_plan(plan, batch)
        if units is None:
            self.give_up(batch.pods, _DEFECT)
            return
        self._begin(units, pods, started)
        for preemption in plan.preemptions:
            with self._confined(Subsystem.DECISION, preemptors=[str(each.pod) for each in preemption.placements]):
                self._wake(self._parts.evictions.begin(profile, preemption, pods))
        is_released = False
        with self._confined(Subsystem.DECISION):
            is_released = self._parts.passed_over.decided(batch, plan, self._clock())
        for unplaced in plan.unplaced:
            with self._confined(Subsystem.DECISION, pod=str(unplaced.pod)):
                self._put_back(pods[unplaced.pod], unplaced.reasons, started, plan.report.node_count)
                self._parts.repairs.loosen(pods[unplaced.pod], unplaced.reasons)
        with self._confined(Subsystem.DECISION, gangs=[str(gang.id) for gang in batch.gangs]):
            self._parts.groups.decided(batch, plan)
        if is_released:
            self._release()
        self._parts.tally.decided(batch, plan, decision.seconds, writing=len(self._commits))

    def _begin(self, units: Sequence[Unit], pods: Mapping[PodId, Pod], started: float) -> None:
        """Assume what a plan places, and begin to write it."""
        with self._confined(Subsystem.DECISION):
            self._parts.pending.placed(each.pod for unit in units for each in unit.placements)
        units = [unit for unit in units if self._is_assumed(unit, pods, started)]
        with self._confined(Subsystem.DECISION):  # the commit of a unit that has not begun fails, and is recovered
            self._parts.commit.begin(units)
        for unit in units:
            self._commits.begin(self._settlement.commit(unit, pods, started))
        self._last_units = len(units)

    def _is_assumed(self, unit: Unit, pods: Mapping[PodId, Pod], started: float) -> bool:
        """Assume a unit; where that is not possible its pods go back."""
        with self._confined(Subsystem.DECISION, pods=names(unit.placements)):
            self._wake(self._parts.cluster.assume(unit))
            return True
        self._settlement.give_up(unit, _DEFECT, pods, started)
        return False

    def _is_apart(self, pod: Pod) -> bool:
        """Whether a pod has a history that its equals do not have: it may not evict for a while, or holds nodes."""
        return self._parts.waits.restraint.holds(pod.uid) or self._parts.passed_over.holds_for(pod.uid)

    def _is_overdue(self, pod: Pod) -> bool:
        return self._parts.passed_over.is_overdue(pod, self._clock())

    def _put_back(self, pod: Pod, reasons: Sequence[Reason], started: float, node_count: int | None = None) -> None:
        """Put a pod back; of the nodes that a decision saw, there may be more or fewer by now."""
        until, reasons = self._parts.asides.rest(pod, reasons)
        if not self._parts.pending.put_back(pod.id, pod.uid, reasons, self._clock(), until):
            self._forget(pod.uid)  # deleted or bound meanwhile: nobody is told, and nothing is remembered again
            return
        self._changed.set()
        with self._confined(Subsystem.SETTLEMENT, pod=str(pod.id)):
            self._parts.tally.queued(self._parts.pending.state(pod.id), "ScheduleAttemptFailure")
            self._parts.tally.failed(pod, reasons, started)
            self._parts.reports.waits(pod, reasons, len(self._nodes) if node_count is None else node_count)

    def _see_pod(self, after: Object | None, transitions: Sequence[Transition], now: float) -> None:
        """Offer a pod to the queue, or let it go; what is remembered of pods that left the queue is dropped."""
        pending = self._parts.pending
        if isinstance(after, Pod):
            is_known = pending.state(after.id) is not None
            before = transitions[0].before
            pending.offer(after, now, before if isinstance(before, Pod) else None)
            if pending.state(after.id) is not None:
                self._parts.tally.seen(after)
                if not is_known:
                    self._parts.tally.queued(pending.state(after.id), "PodAdd")
        for transition in transitions:
            before = transition.before
            if not isinstance(before, Pod):
                continue
            self._parts.completing.see(before, after if isinstance(after, Pod) else None, now)
            is_here = isinstance(after, Pod) and after.uid == before.uid
            if after is None:  # a namesake is the queue's own to tell apart
                pending.remove(before.id)
            if not (is_here and pending.state(before.id) is not None):
                self._forget(before.uid)
            if after is None and before.gang is not None:
                self._parts.groups.left(before.gang)

    def _forget(self, pod_uid: str) -> None:
        self._parts.tally.gone(pod_uid)
        self._parts.reports.forget(pod_uid)
        self._parts.asides.forget(pod_uid)
        if self._parts.passed_over.gone(pod_uid):
            self._release()

    def _release(self) -> None:
        self._parts.pending.release()
        self._changed.set()

    def _wake(self, transitions: Sequence[Transition]) -> None:
        for transition in transitions:
            self._parts.pending.wake(self._parts.cluster.without_void_nomination(transition))
            for pod in self._parts.cluster.unblocked(transition):
                self._parts.pending.hasten(pod, self._clock())
            if transition.conflict is not None:
                _log.warning(logs.UNIT_CONFLICT, key=transition.key, reasons=[transition.conflict.message])
        self._changed.set()

    async def _wait_for_work(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock()
            due = self._parts.pending.next_due(now)
            if due is not None and due <= now:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else due - now):
                    await self._changed.wait()

    async def _wait_for_room(self) -> None:
        """Let writes get done; units that wait for devices to get ready write nothing and hold nobody up."""
        while len(self._commits) - self._parts.waits.count > max(self._last_units, _UNITS_BEHIND):
            self._ended.clear()
            await self._ended.wait()

    def _divide(self, batch: Batch) -> Iterator[Batch]:
        """Split a batch by profile, and then by who has to go before the others."""
        by_profile = sorted(batch.pods, key=lambda pod: pod.scheduler_name)  # stable: the queue's order within
        for _, pods in groupby(by_profile, key=lambda pod: pod.scheduler_name):
            yield from self._parts.passed_over.divided(Batch(pods=tuple(pods)), self._clock())
