"""What to do next for a plan, from its record and the cluster: a decision, no write. The executor carries it out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.kube.repair_plans import (
    MoveProgress,
    MoveState,
    PlanDecision,
    PlannedMove,
    PlanState,
    RepairPlan,
    now_text,
    seconds_of,
)
from scheduler.repair.plan_record import PlanRecord
from solver.domain import Pod


class Act(StrEnum):
    """What the executor does."""

    WAIT = "wait"
    BEGIN = "begin"
    """Judge the moves that are left on the present cluster, and hold the room of the next steps."""
    NOTE = "note"
    """Write that the pods of these steps are evicted from now on: their room is held, and the budgets count them."""
    EVICT = "evict"
    """Evict the pods that are still there, each step as a whole."""
    SETTLE = "settle"
    """Write what became of moves."""
    END = "end"
    """Write a final state, or that the plan is paused, and give its room free."""


class NextAct(NamedTuple):
    """An act, the moves that it is about, what to note of moves, and the state and message of the plan."""

    act: Act
    moves: tuple[PlannedMove, ...] = ()
    noted: tuple[MoveProgress, ...] = ()
    state: PlanState = PlanState.RUNNING
    message: str = ""


class Successor(NamedTuple):
    """The pod that uses the room of a move."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    What is seen of the cluster.

    `pod` finds a pod by its move, None where it is gone. `rooms` gives the places that are held for the successors of
    the first of some moves, by the uid of the pod that leaves; none where no hold is seen. `is_open` says whether such
    a place is held still, and no pod has used it, `is_being_used` whether a pod is being bound with it, which no watch
    shows yet. `objection` says why its node takes no successor now; empty where it does. `successor` finds the bound
    pod that has used it. `are_wanted_placed` says whether the pods that the plan is for have their places, or are gone,
    `is_wanted_room_held` whether room is still held for one of them.
    """

    pod: Callable[[PlannedMove], Pod | None]
    rooms: Callable[[Sequence[PlannedMove]], Mapping[str, str]]
    is_open: Callable[[str], bool]
    is_being_used: Callable[[str], bool]
    objection: Callable[[PlannedMove, str], str]
    successor: Callable[[PlannedMove, str], Successor | None]
    are_wanted_placed: Callable[[], bool]
    is_wanted_room_held: Callable[[], bool]


_MOVING: Final = {Act.BEGIN, Act.NOTE, Act.EVICT}


def next_act(plan: RepairPlan, record: PlanRecord, view: ClusterView) -> NextAct:
    """Decide what to do for an approved plan, a plan under way, or one that was paused or cancelled."""
    act = _next_act(plan, record, view)
    return NextAct(Act.WAIT, message=record.halted) if record.halted and act.act in _MOVING else act


def _next_act(plan: RepairPlan, record: PlanRecord, view: ClusterView) -> NextAct:
    begun = [move for move in plan.spec.moves if (seen := plan.progress(move.uid)) and seen.state is MoveState.EVICTING]
    act = _under_way(plan, begun, record, view)
    if act is not None:
        return act
    failed = next((each for each in plan.status.moves if each.state is MoveState.FAILED), None)
    is_to_stop = failed is not None or plan.spec.decision in {PlanDecision.CANCELLED, PlanDecision.PAUSED}
    if begun and is_to_stop:
        return NextAct(Act.WAIT)
    if failed is not None:
        return NextAct(Act.END, state=PlanState.STOPPED, message=failed.message)
    if plan.spec.decision is PlanDecision.CANCELLED:
        return NextAct(Act.END, state=PlanState.CANCELLED, message="cancelled")
    if plan.spec.decision is PlanDecision.PAUSED:
        return NextAct(Act.END if plan.status.state is PlanState.RUNNING else Act.WAIT, state=PlanState.PAUSED)
    left = [move for move in plan.spec.moves if plan.progress(move.uid) is None]
    if left:
        return _next_steps(left, begun, record, view)
    return NextAct(Act.WAIT) if begun else _finished(plan, record, view)


def _next_steps(
    left: Sequence[PlannedMove], begun: Sequence[PlannedMove], record: PlanRecord, view: ClusterView
) -> NextAct:
    """Begin as many steps together as the budgets allow, and as need no room that other moves leave."""
    held = view.rooms(left)
    chosen: list[PlannedMove] = []
    leaving, message = {move.source for move in begun}, ""
    for _, group in groupby(left, lambda move: move.step):
        step = list(group)
        if held and any(move.target and move.uid not in held for move in step):
            break
        message = "" if held else record.refusal([*chosen, *step])
        if message or any(move.target in leaving for move in step):
            break
        chosen += step
        leaving |= {move.source for move in step}
    if not chosen:
        return NextAct(Act.WAIT, message=message)
    if not held:  # also where no successor needs room: the moves are judged before they are noted
        return NextAct(Act.BEGIN, tuple(chosen))
    return NextAct(Act.NOTE, tuple(chosen), as_begun(chosen, held, record.now))


def as_begun(moves: Sequence[PlannedMove], held: Mapping[str, str], now: float) -> tuple[MoveProgress, ...]:
    """Return what is noted of moves whose pods are evicted from now on, with the places of their successors."""
    time = now_text(now)
    return tuple(
        MoveProgress(uid=move.uid, state=MoveState.EVICTING, time=time, place=held.get(move.uid, "")) for move in moves
    )


def _under_way(plan: RepairPlan, begun: Sequence[PlannedMove], record: PlanRecord, view: ClusterView) -> NextAct | None:
    """Evict what is still there; note successors, and moves that took too long. None where there is nothing to do."""
    noted: list[MoveProgress] = list(_swapped(plan, begun, view))
    if noted:
        return NextAct(Act.SETTLE, noted=tuple(noted))
    staying: list[PlannedMove] = []
    unclear: set[int] = set()  # steps with a pod whose place is being used: it gets another one, or its own again
    for move in begun:
        progress = plan.progress(move.uid)
        pod = view.pod(move)
        if progress is None:
            continue
        is_staying = pod is not None and not pod.is_deleting
        if is_staying and move.target and (why := _objection(move, progress.place, view)):
            noted.append(_settled(progress, MoveState.FAILED, None, f"pod {move.pod}: {why}"))
            continue
        if is_staying and move.target and not view.is_open(progress.place):
            unclear.add(move.step)
        elif is_staying:
            staying.append(move)
        successor = view.successor(move, progress.place) if move.target else Successor("", "")
        if pod is None and successor is not None:
            noted.append(_settled(progress, MoveState.MOVED, successor))
        elif record.now - seconds_of(progress.time) > record.settings.successor_seconds and (
            pod is None or is_staying or not view.is_open(progress.place)  # it may take its time to end
        ):
            what = "it was not evicted" if pod is not None else "no successor came to its room"
            message = f"pod {move.pod}: {what} within {record.settings.successor_seconds} s"
            noted.append(_settled(progress, MoveState.FAILED, None, message))
    if noted:
        return NextAct(Act.SETTLE, noted=tuple(noted))
    clear = tuple(move for move in staying if move.step not in unclear)  # a step is evicted as a whole
    return NextAct(Act.EVICT, clear) if clear else None


def _objection(move: PlannedMove, place: str, view: ClusterView) -> str:
    """Say why a pod may not leave for a place: it is held no more, or its node takes no successor; empty if it may."""
    if not view.is_open(place):
        return "" if view.is_being_used(place) else "the room for its successor is held no more"
    return view.objection(move, place)


def _swapped(plan: RepairPlan, begun: Sequence[PlannedMove], view: ClusterView) -> Iterator[MoveProgress]:
    """
    Swap places of pods that stay, and that successors of others have used, with those that these have left open.

    All successors of one controller are alike: each takes the first place that is open for one of them.
    """
    taken: list[tuple[PlannedMove, MoveProgress]] = []
    left_open: dict[tuple[str, str], list[MoveProgress]] = {}
    for move in begun:
        progress, pod = plan.progress(move.uid), view.pod(move)
        if progress is None or not move.target:
            continue
        is_staying, is_open = pod is not None and not pod.is_deleting, view.is_open(progress.place)
        if is_staying and not is_open and view.successor(move, progress.place) is not None:
            taken.append((move, progress))
        elif not is_staying and is_open:
            left_open.setdefault((move.namespace, move.controller_uid), []).append(progress)
    for move, progress in taken:
        others = left_open.get((move.namespace, move.controller_uid))
        if others:
            other = others.pop(0)
            yield replace(progress, place=other.place)
            yield replace(other, place=progress.place)


def _settled(progress: MoveProgress, state: MoveState, successor: Successor | None, message: str = "") -> MoveProgress:
    name, uid = successor or ("", "")
    return replace(progress, state=state, successor=name, successor_uid=uid, message=message)


def _finished(plan: RepairPlan, record: PlanRecord, view: ClusterView) -> NextAct:
    """All pods are moved: the plan is done when the wanted pods have their places, and over where they have no room."""
    if view.are_wanted_placed():
        return NextAct(Act.END, state=PlanState.DONE)
    last = max((seconds_of(each.time) for each in plan.status.moves), default=record.now)
    if not view.is_wanted_room_held() or record.now - last > 2 * record.settings.successor_seconds:
        return NextAct(Act.END, state=PlanState.STOPPED, message="the pods did not get the room that was made for them")
    return NextAct(Act.WAIT)
