"""
Carries out one plan: holds the room of some steps, notes that their pods are evicted, evicts them, notes successors.

The order of the writes is what makes a crash harmless. The room is held before anything else, and the hold ends by
itself. What is noted counts against the budgets, and no pod is evicted before that. An eviction names the pod's uid,
and is sent only while the pod is seen running. Each look goes on where the plan's status says.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.holds.hold_requests import HoldRefused, HoldRequest
from scheduler.kube import pod_writes, repair_plans
from scheduler.kube.errors import KubeError
from scheduler.kube.pod_writes import EvictionBlocked
from scheduler.kube.repair_plans import MoveProgress, MoveState, PlannedMove, PlanState, RepairPlan, seconds_of
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.observe.unexpected_errors import together
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.next_move import Act, ClusterView, NextAct, Successor, as_begun, next_act
from scheduler.repair.plan_record import PlanRecord
from scheduler.status.status_writer import StatusWriter
from solver import UNSCHEDULABLE_TAINT, first_untolerated_taint, node_tolerations
from solver.domain import Allocation, DeviceHold, HeldPlace, HoldOwner, Pod, PodMatcher, Seat, Victim

MOVED: Final = "MovedByRepair"
"""The reason of the condition DisruptionTarget of a pod that a repair evicts."""
_WANTED: Final = "wanted"
_NO_ROOM: Final = "no room can be held"
_log: Final = logs.logger()


class _RoomUsedError(Exception):
    """The room for the successor of a pod was lost or used, or its node, while the eviction waited for its turn."""


def hold_name(plan: RepairPlan, part: int | str) -> str:
    """Name the hold for steps by the first of them, or that for the pods that the plan is for."""
    return f"{plan.name}-{part}"


Reports = tuple[StatusWriter, Metrics]


class Executor:
    """Does the next act of a plan, one for each call."""

    def __init__(
        self,
        parts: AdvisorParts,
        advisor: Advisor,
        keeper: HoldKeeper,
        reports: Reports,
        limits: tuple[float, Callable[[], float]],
    ) -> None:
        """`limits` are the longest time of a hold, in seconds, and a clock that gives seconds since the epoch."""
        self._parts: Final = parts
        self._advisor: Final = advisor
        self._keeper: Final = keeper
        self._status, self._metrics = reports
        self._most_seconds, self._clock = limits
        self._evicted: set[str] = set()
        """The uids of pods whose evictions the API server has accepted; of the plan under way."""

    async def advance(self, plan: RepairPlan, record: PlanRecord) -> bool:
        """Do what is next; whether something was written. Raise `KubeError`, `WorkerError` and `FencedError`."""
        act = next_act(plan, record, self._view(plan))
        match act.act:
            case Act.WAIT:
                return await self._say(plan, act)
            case Act.BEGIN:
                return await self._begin(plan, act, record)
            case Act.NOTE:
                await self._note(plan, act.noted)
            case Act.EVICT:
                if plan.status.message:  # it waits no more
                    plan = await self._write(plan, state=PlanState.RUNNING, message="")
                return await self._evict(plan, act.moves)
            case Act.SETTLE:
                await self._settle(plan, act.noted)
                # Each note writes the whole status: where only successors are waited for, some share one.
                are_moved = all(each.state is MoveState.MOVED for each in act.noted)
                is_begun = len(plan.status.moves) == len(plan.spec.moves)
                return not (are_moved and is_begun and len(act.noted) < plan.on_the_way)
            case Act.END:
                await self.end(plan, act.state, act.message)
        return True

    async def _say(self, plan: RepairPlan, act: NextAct) -> bool:
        """Note why nothing happens now, once; what kept the plan and does so no more is not said any longer."""
        state = act.state if act.message else plan.status.state
        if (plan.status.message, plan.status.state) == (act.message, state):
            return False
        await self._write(plan, state=state, message=act.message)
        return True

    async def _begin(self, plan: RepairPlan, act: NextAct, record: PlanRecord) -> bool:
        """Judge what is left on the present cluster, then hold the room of the next steps and of the wanted pods."""
        step, needed = act.moves[0].step, 2.0 * record.settings.successor_seconds
        wanted = self._hold(plan, _WANTED)
        broken = self._hold(plan, step), wanted if wanted is not None and wanted.lost else None
        if any(broken):  # others have got some of it
            for hold in filter(None, broken):
                self._keeper.release(hold.uid)
            return False
        if needed > self._most_seconds:
            message = f"room is needed for {needed:.0f} s: write at least that as deviceHolds.maxSeconds"
            return await self._say(plan, act._replace(message=message))
        if why := await self._advisor.still_possible(plan, record):
            await self.end(plan, PlanState.STOPPED, f"the cluster has changed: {why}")
            return True
        places = self._places(plan, act.moves)
        if places is None:  # a pod has gone since that was judged
            return True
        requests = [self._wanted(plan, record) if self._hold(plan, _WANTED) is None else None]
        if places:
            priority = max(pod.priority for pod in map(self._pod, act.moves) if pod is not None)
            request = self._request(plan, step, places, priority, needed)
            # A successor may get devices, and all of the node, that its predecessor has.
            requests.append(replace(request, departing=tuple(move.uid for move in act.moves)))
        for each in filter(None, requests):
            try:
                await self._keeper.hold(each)
            except HoldRefused as refusal:
                return await self._refused_room(plan, act, str(refusal), record)
        if not places:  # spare members take the places
            await self._note(plan, as_begun(act.moves, {}, record.now))
        return True

    async def _refused_room(self, plan: RepairPlan, act: NextAct, refusal: str, record: PlanRecord) -> bool:
        """Say that no room can be held; a plan that waits too long for it ends, and others get their turn."""
        message, is_waiting = f"{_NO_ROOM}: {refusal}", _kind(plan.status.message) == _NO_ROOM
        if is_waiting and record.now - seconds_of(plan.status.since) > record.settings.successor_seconds:
            await self.end(plan, PlanState.STOPPED, message)
            return True
        for hold in self._keeper.of_owner(plan.metadata.uid):
            self._keeper.release(hold.uid)
        return await self._say(plan, act._replace(message=message))

    def _places(self, plan: RepairPlan, moves: Sequence[PlannedMove]) -> tuple[HeldPlace, ...] | None:
        """Return the places of successors, None where a pod is gone. Where a spare member follows, none is needed."""
        solved = {move.pod_uid: move for move in plan.solved().found.moves}
        places: list[HeldPlace] = []
        for move in moves:
            pod = self._pod(move)
            if pod is None:
                return None
            if move.target:
                pods = PodMatcher(namespace=move.namespace, owner_uid=move.controller_uid)
                given = [allocation for _, allocation in solved[move.uid].allocations]
                places.append(_place(pod, move.target, given, pods))
        return tuple(places)

    def _wanted(self, plan: RepairPlan, record: PlanRecord) -> HoldRequest | None:
        """Ask for the room of the pods that the plan is for, also what pods that move still use."""
        solved = plan.solved()
        pods = {} if solved.goal.claims else {pod.id: pod for pod in solved.goal.wanted.pods}
        given = {each.claim: each.allocation for each in solved.found.allocations}
        places = []
        for each in solved.found.placements:
            pod = self._parts.cluster.observed_pod(each.pod)
            if each.pod in pods and pod is not None and pod.uid == each.pod_uid and not pod.node_name:
                own = [given[claim] for claim in each.claims if claim in given]
                matcher = PodMatcher(namespace=each.pod.namespace, pod_uid=each.pod_uid)
                places.append(_place(pods[each.pod], each.node, own, matcher))
        if not places:
            return None
        left = [move for move in plan.spec.moves if plan.progress(move.uid) is None]
        seconds = (len({move.step for move in left}) + 2) * record.settings.successor_seconds
        departing = tuple(move.uid for move in left if self._pod(move) is not None)
        priority = max(pod.priority for pod in pods.values())
        return replace(self._request(plan, _WANTED, tuple(places), priority, seconds), departing=departing)

    def _request(
        self, plan: RepairPlan, part: int | str, places: tuple[HeldPlace, ...], priority: int, seconds: float
    ) -> HoldRequest:
        return HoldRequest(
            name=hold_name(plan, part),
            owner=HoldOwner(
                api_version=repair_plans.API_VERSION,
                resource="repairplans",
                kind=repair_plans.KIND,
                name=plan.name,
                uid=plan.metadata.uid,
            ),
            places=places,
            priority=priority,
            seconds=min(seconds, self._most_seconds),
        )

    def _hold(self, plan: RepairPlan, part: int | str) -> DeviceHold | None:
        """Return a hold of the plan as the watch shows it, or as the API server has answered."""
        found = self._parts.cluster.holds.get(hold_name(plan, part))
        return found if found is not None and found.uid and found.owner.uid == plan.metadata.uid else None

    async def _note(self, plan: RepairPlan, noted: Sequence[MoveProgress]) -> None:
        await self._write(plan, state=PlanState.RUNNING, message="", noted=noted)

    async def _evict(self, plan: RepairPlan, moves: Sequence[PlannedMove]) -> bool:
        """
        Evict the pods of some steps at once, and note those that are refused: the plan ends with them.

        Those that were evicted already leave, although no watch shows it yet. Return whether there were others.
        """
        moves = [move for move in moves if move.uid not in self._evicted]
        steps = [list(step) for _, step in groupby(moves, lambda move: move.step)]
        refused = await together(self._evict_step(plan, step) for step in steps)
        failed = tuple(each for each in refused if each is not None)
        if failed:
            await self._settle(plan, failed)
        return bool(moves)

    async def _evict_step(self, plan: RepairPlan, moves: Sequence[PlannedMove]) -> MoveProgress | None:
        """Evict pods together: of several, all are tried first, and one that is refused keeps all. Return that one."""
        pods = {move.uid: self._pod(move) for move in moves}
        victims = {
            move.uid: Victim(
                pod=move.pod, pod_uid=move.uid, node=move.source, message=f"moved by RepairPlan {plan.name}"
            )
            for move in moves
        }
        for is_trial in (True, False) if len(moves) > 1 else (False,):
            for move in moves:
                send = partial(self._send_eviction, plan, move, victims[move.uid], is_trial=is_trial)
                try:
                    await self._parts.writer.write(send)
                except _RoomUsedError:  # the next looks find another place, or none
                    return None
                except EvictionBlocked as error:
                    progress = plan.progress(move.uid)
                    message = f"pod {move.pod}: {error}"
                    return progress and replace(progress, state=MoveState.FAILED, message=message)
        self._evicted |= pods.keys()
        for move in moves:
            self._metrics.repair_moves.labels(plan.spec.goal.kind, "evicted").inc()
            node = self._held_node(move, _held_place(plan, move))
            _log.info(logs.REPAIR_EVICTED, plan=plan.name, pod=str(move.pod), node=move.source, to=node)
            await self._tell(plan, victims[move.uid], pods[move.uid])
        return None

    async def _send_eviction(
        self, plan: RepairPlan, move: PlannedMove, victim: Victim, *, is_trial: bool, timeout_seconds: float
    ) -> None:
        """Send an eviction, unless the room of the successor was lost, or its node, while it waited for its turn."""
        place = _held_place(plan, move)
        if move.target and (not self._parts.cluster.holds.is_open(place) or self._objection(move, place)):
            raise _RoomUsedError
        await pod_writes.evict(self._parts.client, victim, is_trial=is_trial, timeout_seconds=timeout_seconds)

    async def _tell(self, plan: RepairPlan, victim: Victim, pod: Pod | None) -> None:
        """Tell a pod by an event and a condition why it was evicted; it may be gone by now."""
        if pod is None:
            return
        self._status.record_moved(pod, plan.name, plan.spec.goal.subject)
        client, message = self._parts.client, victim.message
        mark = partial(pod_writes.mark_preempted, client, victim, message, pod.generation, reason=MOVED)
        try:
            await self._parts.writer.write(mark, is_status=True)
        except KubeError as error:
            _log.debug(logs.EVENT_DROPPED, error=str(error))

    async def _settle(self, plan: RepairPlan, noted: Sequence[MoveProgress]) -> None:
        for each in noted:
            if each.state is not MoveState.EVICTING:  # that one has got another place
                self._metrics.repair_moves.labels(plan.spec.goal.kind, each.state.lower()).inc()
        await self._write(plan, state=PlanState.RUNNING, message="", noted=noted)

    async def end(self, plan: RepairPlan, state: PlanState, message: str) -> None:
        """Give the room free that is still held, then write the state."""
        if state.is_final:
            self._evicted.clear()
            for hold in self._keeper.of_owner(plan.metadata.uid):
                self._keeper.release(hold.uid)
        await self._write(plan, state=state, message=message)
        _log.info(logs.REPAIR_ENDED, plan=plan.name, state=state, message=message)

    async def _write(
        self, plan: RepairPlan, *, state: PlanState, message: str, noted: Sequence[MoveProgress] = ()
    ) -> RepairPlan:
        known = {each.uid: each for each in plan.status.moves} | {each.uid: each for each in noted}
        is_new = state is not plan.status.state or _kind(message) != _kind(plan.status.message)
        since = repair_plans.now_text(self._clock()) if is_new or not plan.status.since else plan.status.since
        status = repair_plans.PlanStatus(state=state, message=message, since=since, moves=tuple(known.values()))
        return await self._parts.writer.write(partial(repair_plans.write_status, self._parts.client, plan, status))

    def _view(self, plan: RepairPlan) -> ClusterView:
        return ClusterView(
            pod=self._pod,
            rooms=partial(self._rooms, plan),
            is_open=self._parts.cluster.holds.is_open,
            is_being_used=self._is_being_used,
            objection=self._objection,
            successor=self._successor,
            are_wanted_placed=partial(self._are_wanted_placed, plan),
            is_wanted_room_held=lambda: self._hold(plan, _WANTED) is not None,
        )

    def _rooms(self, plan: RepairPlan, left: Sequence[PlannedMove]) -> dict[str, str]:
        """
        Return the held places (`Seat.id`) for the first moves that are left.

        There are none where others have got one, or one of a pod that the plan is for: it may be for nothing then.
        """
        hold, wanted = self._hold(plan, left[0].step), self._hold(plan, _WANTED)
        if hold is None or hold.lost or hold.used or (wanted is not None and wanted.lost):
            return {}
        targeted = (move for move in left if move.target)
        return {move.uid: Seat(hold, place).id for move, place in zip(targeted, hold.places, strict=False)}

    def _pod(self, move: PlannedMove) -> Pod | None:
        """Return the pod of a move, None where it is gone, or another one has its name."""
        pod = self._parts.cluster.observed_pod(move.pod)
        return pod if pod is not None and pod.uid == move.uid and not pod.is_terminal else None

    def _held_node(self, move: PlannedMove, place: str) -> str:
        """Return the node where the room of a move's successor is; after a swap of places it is not the plan's."""
        uid, _, index = place.rpartition("/")
        hold = self._parts.cluster.holds.by_uid(uid)
        return move.target if hold is None else hold.places[int(index)].node

    def _objection(self, move: PlannedMove, place: str) -> str:
        """
        Say why the node of a place takes no successor of a pod any more; empty where it does.

        Between the hold and the eviction an autoscaler may have begun to drain it, or a person cordons it.
        """
        pod, node = self._pod(move), self._parts.cluster.node(self._held_node(move, place))
        if pod is None or node is None:
            return ""
        taints = (*node.taints, UNSCHEDULABLE_TAINT) if node.is_unschedulable else node.taints
        taint = first_untolerated_taint(taints, node_tolerations(pod))
        return "" if taint is None else f"node {node.name} of its successor has the taint {taint}"

    def _is_being_used(self, place: str) -> bool:
        """Whether a pod is assumed to be bound with a place, before the watch shows it."""
        naming = map(self._parts.cluster.observed_pod, self._parts.cluster.holds.pods_naming(place))
        return any(pod is not None and not pod.node_name for pod in naming)

    def _successor(self, _: PlannedMove, place: str) -> Successor | None:
        """Return the bound pod that has used the place of a move, on whatever node."""
        naming = map(self._parts.cluster.observed_pod, self._parts.cluster.holds.pods_naming(place))
        found = next((pod for pod in naming if pod is not None and pod.node_name and pod.place == place), None)
        return None if found is None else Successor(found.id.name, found.uid)

    def _are_wanted_placed(self, plan: RepairPlan) -> bool:
        cluster = self._parts.cluster
        goal = plan.solved().goal
        wanted = () if goal.claims else goal.wanted.pods
        waiting = ((pod, cluster.observed_pod(pod.id)) for pod in wanted)
        return all(seen is None or seen.uid != pod.uid or bool(seen.node_name) for pod, seen in waiting)


def _kind(message: str) -> str:
    """Return what a plan waits for, without the details behind the colon; `since` counts from the first of its kind."""
    return message.partition(":")[0]


def _place(pod: Pod, node: str, allocations: Sequence[Allocation], pods: PodMatcher) -> HeldPlace:
    """Return a place for pods that ask for the same as a pod does."""
    return HeldPlace.of(pod, node, [each for allocation in allocations for each in allocation.results], pods)


def _held_place(plan: RepairPlan, move: PlannedMove) -> str:
    """Return the held place (`Seat.id`) of a move's successor; empty where none is held."""
    progress = plan.progress(move.uid)
    return "" if progress is None else progress.place
