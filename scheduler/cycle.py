"""
The scheduling cycle, and what feeds it.

    see      a change of the watch → cluster cache, queue, replica of the worker process
    decide   form a batch (`batch_formation`) · solve · split the plan into units · assume
    commit   check · write · confirm or forget · put back (`binding_cycle`)

The cycles overlap: the writes of the last plan go on while the next batch is solved. When nothing is under way a pod is
decided at once. While units of earlier plans are written, pods collect for a batching window: a decision costs as much
CPU time as the writes of some pods, so one for each pod would take that time from the API server.
Costly pods and suspects are decided beside the batches (`isolated_lane`); their plans are carried out between two.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from scheduler.batch_formation import INTERNAL_ERROR, BatchFormation, FormedBatches
from scheduler.binding_cycle import BindingCycle, DecisionStart, names
from scheduler.change import Change, Kind, Object
from scheduler.cluster import Intake, Transition, Unit, split_plan
from scheduler.cluster.assume_cache import not_taken
from scheduler.components import Components
from scheduler.isolated_lane import Ask
from scheduler.loop_turns import LoopTurns
from scheduler.observe.metrics import Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks
from scheduler.placement_check.podset_pods import is_expected
from scheduler.status.conditions import condition_message
from scheduler.worker.decider import Decision
from solver.domain import Batch, Pod, PodId, Policy, Reason, ReasonCode, UndecidedCause

_UNITS_BEHIND: Final = 64
"""Units of earlier plans that may still be written when the next batch is taken: a slow write delays no pod long."""
_WINDOW_SHARE: Final = 4.0
"""The batching window in durations of the last decision: short decisions take a fifth of the time at most."""
_LONGEST_WINDOW_SECONDS: Final = 0.05
"""The longest batching window, however long the decision took."""
_DECISIONS: Final = 3
"""Decisions for a batch: what is not hard, small hard parts, and the large ones (see `solver.search.decompose`)."""
_STALE_PLAN: Final = Reason(
    code=ReasonCode.CONFLICT, message="the cluster changed during the decision; the scheduler decides again"
)


class SchedulingCycle:
    """Moves pods from the watch to their nodes. `policies` are by schedulerName; every batch has one of them."""

    def __init__(
        self,
        parts: Components,
        policies: Mapping[str, Policy],
        max_pods: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._parts: Final = parts
        self._max_pods: Final = max_pods
        self._clock: Final = clock
        self._formation: Final = BatchFormation(parts, policies, clock, self.give_up)
        self._intake: Final = Intake(parts.cluster)
        self._binding: Final = BindingCycle(parts, self._put_back, clock=clock, sleep=sleep)
        self._confined: Final = partial(Confined, parts.metrics)
        self._decision_lock: Final = asyncio.Lock()
        self._commits: Final = Tasks(parts.metrics, Subsystem.COMMIT, parts.fewer_writing.set)
        self._nodes: Final[set[str]] = set()
        self._last_units = 0
        self._last_seconds = 0.0
        self._window_ends = 0.0

    def see(self, changes: Sequence[Change]) -> None:
        """Apply changes of a watch to the cluster cache, the queue and the replica of the worker process."""
        parts, now = self._parts, self._clock()
        for received in changes:
            change, transitions, problem = self._intake.take(received)
            (parts.quarantine.unusable(received, problem) if problem else parts.quarantine.usable(received))
            if not transitions:
                continue
            parts.worker.note(change)
            try:
                self._follow(change, transitions, now)
            except Exception as error:  # noqa: BLE001 - whatever one object raises, all others are followed
                parts.quarantine.unusable(change, f"{type(error).__name__}: {error}")
                if change.kind is Kind.PODS:
                    parts.queue.drop(PodId(*change.key.split("/", 1)))

    def _follow(self, change: Change, transitions: Sequence[Transition], now: float) -> None:
        """Apply a change of the cluster cache to the queue, and to units that wait before they are bound."""
        if change.kind is Kind.PODS:
            self._see_pod(change.value, transitions, now)
        elif change.kind is Kind.NODES:
            (self._nodes.discard if change.value is None else self._nodes.add)(change.key)
        elif change.kind is Kind.POD_GROUPS:
            self._parts.pod_groups.see(transitions[0])
        self._parts.waker.wake(transitions)
        self._parts.holds.see(transitions)
        self._parts.prebind.see(change)

    async def warm_up(self) -> None:
        """
        Have the worker decide about one waiting pod, of which nothing comes, while this replica does not lead yet.

        So the first batch of a leader finds nodes, devices and selectors read, and its own time is left to its pods.
        """
        async with self._decision_lock:
            with self._confined(Subsystem.DECISION):
                await self._parts.decider.warm_up(*self._formation.example())

    async def decide(self) -> None:
        """Schedule pods until cancelled."""
        while True:
            await self._wait_for_work()
            await self._wait_for_commits()
            await self._end_batching_window()
            await asyncio.sleep(0)  # where batch after batch has only pods without claims, nothing else waits
            await self._parts.decider.wait_until_ready()
            for formed in self._formation.form(self._max_pods):
                await self._decide_formed(formed)

    async def _decide_formed(self, formed: FormedBatches) -> None:
        """
        Decide the batches of pods without a nominated node, then those of pods that have a node nominated.

        The latter may take the time that the former took last. So the other pods wait no more than twice as long,
        however many pods have a node nominated; those that are left come with the next batch.
        """
        began = self._clock()
        for batch in formed.others:
            await self._decide_in_rounds(batch)
        seconds = self._clock() - began if formed.others else 0.0
        spent = 0.0
        for batch in formed.nominated:
            started = self._clock()
            if spent <= self._last_seconds:
                await self._decide_in_rounds(batch)
                spent += self._clock() - started
            else:
                self._parts.queue.give_back(batch.pods, started)
        self._last_seconds = seconds or self._last_seconds

    async def finish(self, seconds: float) -> bool:
        """Wait for the writes that are under way, at most so long; return whether all have ended. Cancel the rest."""
        ending = self._commits, self._parts.evictions, self._parts.finalizers
        return all(await asyncio.gather(*(each.finish(seconds) for each in ending)))

    async def _decide_in_rounds(self, batch: Batch) -> None:
        """
        Decide a batch, then what is hard in it, small parts first: each decision has its own budget.

        What is left then comes with the next batch, beside the pods that have come meanwhile.
        """
        for _ in range(_DECISIONS):
            batch = await self._decide_once(batch)
        self._parts.queue.give_back(batch.pods, self._clock(), was_tried=True)

    async def _decide_once(self, batch: Batch) -> Batch:
        """Decide a batch, and return the pods that need another decision."""
        if not batch.pods:
            return batch
        async with self._decision_lock:
            started, decision = self._clock(), None
            with self._confined(Subsystem.DECISION, pods=[str(pod.id) for pod in batch.pods]):
                prepared, policy = self._formation.prepare(batch)
                # Pods that are expected of Workloads, and their claims, are in no API server.
                self._parts.finalizers.begin([pod for pod in prepared.pods if not is_expected(pod.id)])
                decision = await self._parts.decider.decide(prepared, policy)
            if decision is None:
                self.give_up(batch.pods, INTERNAL_ERROR)
                return Batch(pods=())
            await self._apply_decision(decision, started)
            ended = self._clock()
            self._window_ends = ended + min(_LONGEST_WINDOW_SECONDS, _WINDOW_SHARE * (ended - started))
        self._parts.isolated_lane.take_in(decision)
        self._parts.queue.give_back(decision.undecided_for(UndecidedCause.NO_WORKER).pods, self._clock())
        return decision.undecided_for(UndecidedCause.LATER)

    async def decide_with(self, batch: Batch, ask: Ask) -> tuple[Decision, bool]:
        """
        Decide a costly batch with `ask`, and carry the plan out if it is still valid; return whether it was.

        Other batches are decided and assumed meanwhile. So the plan is checked whole against the cluster as it is then,
        between two batches, and the next batch sees what it takes.
        """
        started = self._clock()
        batch, policy = self._formation.prepare(batch)
        queue = self._parts.queue
        numbers = {pod.id: queue.batch_number(pod.id) for pod in batch.pods}
        decision = await ask(batch, policy)
        async with self._decision_lock:
            is_valid = await self._parts.decider.is_still_valid(decision, policy)
            # Another batch has taken a pod that left the queue and came back meanwhile.
            returned = {key for key, number in numbers.items() if queue.batch_number(key) not in {None, number}}
            if is_valid and not returned:
                await self._apply_decision(decision, started, is_isolated=True)
            else:
                self.give_up((pod for pod in decision.batch.pods if pod.id not in returned), (_STALE_PLAN,))
        return decision, is_valid and not returned

    def give_up(self, pods: Iterable[Pod], reasons: Sequence[Reason]) -> None:
        """Put pods back that could not be decided."""
        for pod in pods:
            self._put_back(pod, reasons, self._clock())

    async def _apply_decision(self, decision: Decision, started: float, *, is_isolated: bool = False) -> None:
        """
        Assume what was decided and begin to write it; put back pods that were not placed.

        In turns: meanwhile objects change, as they do between the decision and here, and no other batch is decided.
        """
        batch, plan = decision.batch, decision.plan
        if not batch.pods:
            return
        profile, pods, units = batch.pods[0].scheduler_name, {pod.id: pod for pod in batch.pods}, None
        with self._confined(Subsystem.DECISION, pods=[str(pod.id) for pod in batch.pods]):
            units = split_plan(plan, batch)
        if units is None:
            self.give_up(batch.pods, INTERNAL_ERROR)
            return
        number = self._parts.history.begin()
        self._parts.finalizers.decided(plan)
        turns = LoopTurns()
        await self._begin(units, pods, DecisionStart(number, started), turns)
        async for preemption in turns.each(plan.preemptions):
            with self._confined(Subsystem.DECISION, preemptors=[str(each.pod) for each in preemption.placements]):
                self._parts.waker.wake(self._parts.evictions.begin(profile, preemption, pods))
        is_released = False
        with self._confined(Subsystem.DECISION):
            is_released = self._parts.starvation.decided(batch, plan, self._clock())
            self._parts.preemption_delays.decided(batch, plan, self._clock())
        async for unplaced in turns.each(plan.unplaced):
            with self._confined(Subsystem.DECISION, pod=str(unplaced.pod)):
                self._put_back(pods[unplaced.pod], unplaced.reasons, started, plan.report.node_count)
                self._parts.stale_allocations.note_unplaced(pods[unplaced.pod], unplaced.reasons)
        with self._confined(Subsystem.DECISION, gangs=[str(gang.id) for gang in batch.gangs]):
            self._parts.pod_groups.decided(batch, plan)
        self._parts.waker.reserved(self._parts.starvation.reservations, is_released=is_released)
        if plan.next_victim_seconds is not None:
            self._parts.queue.expect_victim(self._clock() + plan.next_victim_seconds)
        with self._confined(Subsystem.SETTLEMENT):
            self._parts.attempt_metrics.decided(
                batch, plan, decision.seconds, number=number, writing=len(self._commits)
            )
            self._parts.history.decided(
                number,
                plan,
                self._parts.cluster.claim,
                profile=profile,
                pods=len(batch.pods),
                seconds=decision.seconds,
                is_isolated=is_isolated,
                file=decision.file,
            )

    async def _begin(
        self, units: Sequence[Unit], pods: Mapping[PodId, Pod], attempt: DecisionStart, turns: LoopTurns
    ) -> None:
        """Assume what a plan places, and begin to write it."""
        with self._confined(Subsystem.DECISION):
            self._parts.queue.placed(each.pod for unit in units for each in unit.placements)
        units = [unit async for unit in turns.each(units) if not self._is_expected(unit, pods)]
        units = [unit async for unit in turns.each(units) if self._is_assumed(unit, pods, attempt)]
        with self._confined(Subsystem.DECISION):  # the commit of a unit that has not begun fails, and is recovered
            await self._parts.commit.begin(units)
        for unit in units:
            self._commits.begin(self._binding.commit(unit, pods, attempt))
        self._last_units = len(units)

    def _is_assumed(self, unit: Unit, pods: Mapping[PodId, Pod], attempt: DecisionStart) -> bool:
        """Assume a unit; where that is not possible its pods go back."""
        cluster = self._parts.cluster
        with self._confined(Subsystem.DECISION, pods=names(unit.placements)):
            transitions = cluster.assume(unit)
            self._parts.waker.wake((*transitions, *not_taken(unit, pods, cluster.pod, cluster.claim)))
            return True
        self._binding.give_up(unit, INTERNAL_ERROR, pods, attempt)
        return False

    def _is_expected(self, unit: Unit, pods: Mapping[PodId, Pod]) -> bool:
        """Hand the place of a Workload's pods, which do not exist, to the admission check; return whether it is one."""
        check = self._parts.placement_check
        if check is None or not any(is_expected(each.pod) for each in unit.placements):
            return False
        with self._confined(Subsystem.ADMISSION_CHECK, pods=names(unit.placements)):
            check.placed(unit, pods)
            return True
        self.give_back(unit, pods, INTERNAL_ERROR)
        return True

    def give_back(self, unit: Unit, pods: Mapping[PodId, Pod], reasons: Sequence[Reason]) -> None:
        """Try those again that lost to a unit which takes nothing; with reasons its pods are decided again too."""
        cluster = self._parts.cluster
        self._parts.waker.wake(tuple(not_taken(unit, pods, cluster.pod, cluster.claim)))
        for placement in unit.placements if reasons else ():
            self._put_back(pods[placement.pod], reasons, self._clock())

    def _put_back(self, pod: Pod, reasons: Sequence[Reason], started: float, node_count: int | None = None) -> None:
        """Put a pod back; of the nodes that a decision saw, there may be more or fewer by now."""
        until, reasons = self._parts.isolated_lane.backoff(pod, reasons)
        if not self._parts.queue.put_back(pod.id, pod.uid, reasons, self._clock(), until):
            self._forget(pod.uid)  # deleted or bound meanwhile: nothing is reported or remembered again
            return
        self._parts.waker.changed.set()
        nodes = len(self._nodes) if node_count is None else node_count
        if self._parts.placement_check is not None and is_expected(pod.id):
            self._parts.starvation.forget(pod.uid)  # no node is reserved for a pod that does not exist
            say = partial(condition_message, self._parts.status.shown(reasons), nodes)
            self._parts.placement_check.refused(pod, say)
            return
        with self._confined(Subsystem.SETTLEMENT, pod=str(pod.id)):
            self._parts.attempt_metrics.queued(self._parts.queue.state(pod.id), "ScheduleAttemptFailure")
            self._parts.attempt_metrics.failed(pod, reasons, started)
            self._parts.status.report_unschedulable(pod, reasons, nodes)

    def _see_pod(self, after: Object | None, transitions: Sequence[Transition], now: float) -> None:
        """Offer a pod to the queue, or remove it; forget what is remembered of pods that left the queue."""
        queue = self._parts.queue
        if isinstance(after, Pod):
            is_known = queue.state(after.id) is not None
            before = transitions[0].before
            queue.offer(after, now, before if isinstance(before, Pod) else None)
            if queue.state(after.id) is not None and not is_expected(after.id):
                self._parts.attempt_metrics.add(after)
                if not is_known:
                    self._parts.attempt_metrics.queued(queue.state(after.id), "PodAdd")
        before = transitions[0].before
        if not isinstance(before, Pod):
            return
        self._parts.gang_replacements.see(before, after if isinstance(after, Pod) else None, now)
        is_here = isinstance(after, Pod) and after.uid == before.uid
        if after is None:  # the queue itself notices another pod of the same name
            queue.remove(before.id)
        if not (is_here and queue.state(before.id) is not None):
            self._forget(before.uid)
        if after is None and before.gang is not None:
            self._parts.pod_groups.left(before.gang)

    def _forget(self, pod_uid: str) -> None:
        self._parts.attempt_metrics.forget(pod_uid)
        self._parts.status.forget(pod_uid)
        self._parts.isolated_lane.forget(pod_uid)
        self._parts.preemption_delays.forget(pod_uid)
        if self._parts.starvation.forget(pod_uid):
            self._parts.waker.reserved(self._parts.starvation.reservations, is_released=True)

    async def _wait_for_work(self) -> None:
        changed = self._parts.waker.changed
        while True:
            changed.clear()
            now = self._clock()
            due = self._parts.queue.next_due(now)
            if due is not None and due <= now:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else due - now):
                    await changed.wait()

    async def _wait_for_commits(self, most: int | None = None) -> None:
        """
        Wait while more units than `most` are written, by default while there are too many for another plan.

        Units that wait for their devices write nothing and do not count.
        """
        most = max(self._last_units, _UNITS_BEHIND) if most is None else most
        while len(self._commits) - self._parts.prebind.count > most:
            self._parts.fewer_writing.clear()
            await self._parts.fewer_writing.wait()

    async def _end_batching_window(self) -> None:
        """Wait until the window of the last decision ends, or nothing is written any more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._window_ends - self._clock())):
                await self._wait_for_commits(0)
