"""
Carries out one plan: holds the room of a step, notes that its pods are evicted, evicts them, and notes successors.

The order of the writes is what makes a crash harmless. The room is held before anything else, and the hold ends by
itself. What is noted counts against the budgets, and no pod is evicted before that. An eviction names the pod's uid,
and is sent only while the pod is seen running. Each look goes on where the plan's status says.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.kube import pod_writes, repair_plans, repair_rooms
from scheduler.kube.pod_writes import EvictionBlocked
from scheduler.kube.repair_plans import MoveProgress, MoveState, PlannedMove, PlanState, RepairPlan
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.next_move import Act, ClusterView, NextAct, Successor, next_act
from scheduler.repair.plan_record import PlanRecord
from scheduler.status.status_writer import StatusWriter
from solver.domain import Pod, RepairGoal, Victim

MOVED: Final = "MovedByRepair"
"""The reason of the condition DisruptionTarget of a pod that a repair evicts."""
_WANTED: Final = "wanted"
_log: Final = logs.logger()


def hold_name(plan: RepairPlan, part: int | str) -> str:
    """Name the hold of a step, or of the pods that the plan is for."""
    return f"{plan.name}-{part}"


class Rooms(NamedTuple):
    """
    What the scheduler knows of held room, as its decisions respect it.

    `uid_of` gives the uid of a DeviceHold by its name, "" where none is known. `place_of` gives the place that a bound
    pod has used, `UID/INDEX`, "" for none.
    """

    uid_of: Callable[[str], str]
    place_of: Callable[[Pod], str]


Reports = tuple[StatusWriter, Metrics]


class Executor:
    """Does the next act of a plan, one for each call."""

    def __init__(
        self, parts: AdvisorParts, advisor: Advisor, rooms: Rooms, reports: Reports, clock: Callable[[], float]
    ) -> None:
        self._parts: Final = parts
        self._advisor: Final = advisor
        self._rooms: Final = rooms
        self._status, self._metrics = reports
        self._clock: Final = clock

    async def advance(self, plan: RepairPlan, record: PlanRecord) -> bool:
        """Do what is next; whether something was written. Raise `KubeError`, `WorkerError` and `FencedError`."""
        act = next_act(plan, record, self._view(plan))
        match act.act:
            case Act.WAIT:
                return await self._say(plan, act)
            case Act.BEGIN:
                await self._begin(plan, act, record)
            case Act.NOTE:
                await self._note(plan, act.noted)
            case Act.EVICT:
                return await self._evict(plan, act.moves)
            case Act.SETTLE:
                await self._settle(plan, act.noted)
            case Act.END:
                await self._end(plan, act.state, act.message)
        return True

    async def _say(self, plan: RepairPlan, act: NextAct) -> bool:
        """Note why nothing happens now, once."""
        if not act.message or (plan.status.message, plan.status.state) == (act.message, act.state):
            return False
        await self._write(plan, state=act.state, message=act.message)
        return True

    async def _begin(self, plan: RepairPlan, act: NextAct, record: PlanRecord) -> None:
        """Judge what is left on the present cluster, then hold the room of the step, and that of the wanted pods."""
        if why := await self._advisor.still_possible(plan, record):
            await self._end(plan, PlanState.STOPPED, f"the cluster has changed: {why}")
            return
        pods = {move.uid: self._pod(move) for move in act.moves}
        if any(pod is None for pod in pods.values()):  # it has gone since that was judged
            return
        solved = plan.solved()
        moves = {move.pod_uid: move for move in solved.found.moves}
        if act.moves[0].step == 1 and solved.goal.wanted.pods and not solved.goal.claims:
            await self._hold_wanted(plan, solved.goal, record)
        groups = [
            repair_rooms.place_for(
                pod,
                move.target,
                [allocation for _, allocation in moves[move.uid].allocations],
                ownerUID=move.controller_uid,
            )
            for move in act.moves
            if move.target and (pod := pods[move.uid]) is not None
        ]
        if groups:
            seconds = 2 * record.settings.successor_seconds
            await self._hold(plan, act.moves[0].step, groups, record.now + seconds)

    async def _hold_wanted(self, plan: RepairPlan, goal: RepairGoal, record: PlanRecord) -> None:
        """Hold the room of the pods that the plan is for, also what pods that move still use."""
        found = plan.solved().found
        pods = {pod.id: pod for pod in goal.wanted.pods}
        given = {each.claim: each.allocation for each in found.allocations}
        groups = [
            repair_rooms.place_for(
                pods[each.pod],
                each.node,
                [given[claim] for claim in each.claims if claim in given],
                podUID=each.pod_uid,
            )
            for each in found.placements
        ]
        steps = max(move.step for move in plan.spec.moves)
        seconds = (steps + 2) * record.settings.successor_seconds
        await self._hold(plan, _WANTED, groups, record.now + seconds)

    async def _hold(self, plan: RepairPlan, part: int | str, groups: list[dict[str, object]], deadline: float) -> None:
        priority = max((pod.priority for pod in map(self._pod, plan.spec.moves) if pod is not None), default=0)
        send = partial(
            repair_rooms.hold_room,
            self._parts.client,
            hold_name(plan, part),
            plan,
            groups,
            priority=priority,
            deadline=deadline,
        )
        await self._parts.writer.write(send)

    async def _note(self, plan: RepairPlan, noted: Sequence[MoveProgress]) -> None:
        await self._write(plan, state=PlanState.RUNNING, message="", noted=noted)

    async def _evict(self, plan: RepairPlan, moves: Sequence[PlannedMove]) -> bool:
        """Evict pods together: first all are tried, and where one is refused none is evicted."""
        victims = [
            Victim(pod=move.pod, pod_uid=move.uid, node=move.source, message=f"moved by RepairPlan {plan.name}")
            for move in moves
        ]
        for is_trial in (True, False):
            for victim in victims:
                send = partial(pod_writes.evict, self._parts.client, victim, is_trial=is_trial)
                try:
                    await self._parts.writer.write(send)
                except EvictionBlocked as error:
                    await self._refused(plan, victim, str(error))
                    return True
        for victim, move in zip(victims, moves, strict=True):
            pod = self._pod(move)
            if pod is not None:
                self._status.record_moved(pod, plan.name, plan.spec.goal.subject)
                mark = partial(
                    pod_writes.mark_preempted, self._parts.client, victim, victim.message, pod.generation, reason=MOVED
                )
                await self._parts.writer.write(mark, is_status=True)
            self._metrics.repair_moves.labels(plan.spec.goal.kind, "evicted").inc()
            _log.info(logs.REPAIR_EVICTED, plan=plan.name, pod=str(victim.pod), node=victim.node, to=move.target)
        return True

    async def _refused(self, plan: RepairPlan, victim: Victim, message: str) -> None:
        """Note that an eviction is refused: the plan ends with it."""
        progress = plan.progress(victim.pod_uid)
        if progress is not None:
            failed = replace(progress, state=MoveState.FAILED, message=f"pod {victim.pod}: {message}")
            await self._settle(plan, (failed,))

    async def _settle(self, plan: RepairPlan, noted: Sequence[MoveProgress]) -> None:
        for each in noted:
            self._metrics.repair_moves.labels(plan.spec.goal.kind, each.state.lower()).inc()
        written = await self._write(plan, state=PlanState.RUNNING, message="", noted=noted)
        for step in {move.step for move in plan.spec.moves if any(each.uid == move.uid for each in noted)}:
            own = [move for move in plan.spec.moves if move.step == step]
            if all((seen := written.progress(move.uid)) and seen.state is not MoveState.EVICTING for move in own):
                await self._free(plan, step)

    async def _end(self, plan: RepairPlan, state: PlanState, message: str) -> None:
        """Give the room free that is still held, then write the state."""
        if state.is_final:
            parts: list[int | str] = [_WANTED, *sorted({move.step for move in plan.spec.moves})]
            for part in parts:
                if self._rooms.uid_of(hold_name(plan, part)):
                    await self._free(plan, part)
        await self._write(plan, state=state, message=message)
        _log.info(logs.REPAIR_ENDED, plan=plan.name, state=state, message=message)

    async def _free(self, plan: RepairPlan, part: int | str) -> None:
        await self._parts.writer.write(partial(repair_rooms.free_room, self._parts.client, hold_name(plan, part)))

    async def _write(
        self, plan: RepairPlan, *, state: PlanState, message: str, noted: Sequence[MoveProgress] = ()
    ) -> RepairPlan:
        known = {each.uid: each for each in plan.status.moves} | {each.uid: each for each in noted}
        is_new = state is not plan.status.state
        since = repair_plans.now_text(self._clock()) if is_new or not plan.status.since else plan.status.since
        status = repair_plans.PlanStatus(state=state, message=message, since=since, moves=tuple(known.values()))
        return await self._parts.writer.write(partial(repair_plans.write_status, self._parts.client, plan, status))

    def _view(self, plan: RepairPlan) -> ClusterView:
        return ClusterView(
            pod=self._pod,
            has_room=lambda step: bool(self._rooms.uid_of(hold_name(plan, step))),
            successor=partial(self._successor, plan),
            are_wanted_placed=partial(self._are_wanted_placed, plan),
        )

    def _pod(self, move: PlannedMove) -> Pod | None:
        """Return the pod of a move, None where it is gone, or another one has its name."""
        pod = self._parts.cluster.observed_pod(move.pod)
        return pod if pod is not None and pod.uid == move.uid and not pod.is_terminal else None

    def _successor(self, plan: RepairPlan, move: PlannedMove) -> Successor | None:
        """Return the bound pod that has used the place of a move."""
        uid = self._rooms.uid_of(hold_name(plan, move.step))
        if not uid:
            return None
        places = [each for each in plan.spec.moves if each.step == move.step and each.target]
        place = f"{uid}/{places.index(move)}"
        on_target = self._parts.cluster.observed_pods_on(move.target)
        found = next((pod for pod in on_target if self._rooms.place_of(pod) == place), None)
        return None if found is None else Successor(found.id.name, found.uid)

    def _are_wanted_placed(self, plan: RepairPlan) -> bool:
        cluster = self._parts.cluster
        goal = plan.solved().goal
        wanted = (cluster.observed_pod(pod.id) for pod in (() if goal.claims else goal.wanted.pods))
        return all(pod is None or bool(pod.node_name) for pod in wanted)
