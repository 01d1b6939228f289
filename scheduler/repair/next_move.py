"""What to do next for a plan, from its record and the cluster: a decision, no write. The executor carries it out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

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
    """Judge the moves that are left on the present cluster, and hold the room of the step."""
    NOTE = "note"
    """Write that the pods of the step are evicted from now on: their room is held, and the budgets count them."""
    EVICT = "evict"
    """Evict the pods of the step that are still there."""
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

    `pod` finds a pod by its move, None where it is gone. `room` names the place that is held for the successor of a
    move, empty where none is, and `successor` finds the bound pod that uses such a place. `are_wanted_placed` says
    whether the pods that the plan is for have their places, or are gone.
    """

    pod: Callable[[PlannedMove], Pod | None]
    room: Callable[[PlannedMove], str]
    successor: Callable[[PlannedMove, str], Successor | None]
    are_wanted_placed: Callable[[], bool]


def next_act(plan: RepairPlan, record: PlanRecord, view: ClusterView) -> NextAct:
    """Decide what to do for an approved plan, a plan under way, or one that was paused or cancelled."""
    begun = [move for move in plan.spec.moves if (seen := plan.progress(move.uid)) and seen.state is MoveState.EVICTING]
    if begun:
        return _under_way(plan, begun, record, view)
    failed = next((each for each in plan.status.moves if each.state is MoveState.FAILED), None)
    if failed is not None:
        return NextAct(Act.END, state=PlanState.STOPPED, message=failed.message)
    if plan.spec.decision is PlanDecision.CANCELLED:
        return NextAct(Act.END, state=PlanState.CANCELLED, message="cancelled")
    if plan.spec.decision is PlanDecision.PAUSED:
        return NextAct(Act.END if plan.status.state is PlanState.RUNNING else Act.WAIT, state=PlanState.PAUSED)
    left = [move for move in plan.spec.moves if plan.progress(move.uid) is None]
    if not left:
        return _finished(plan, record, view)
    step = tuple(move for move in left if move.step == left[0].step)
    rooms = {move.uid: view.room(move) for move in step if move.target}
    if all(rooms.values()):
        time = now_text(record.now)
        noted = tuple(
            MoveProgress(uid=move.uid, state=MoveState.EVICTING, time=time, place=rooms.get(move.uid, ""))
            for move in step
        )
        return NextAct(Act.NOTE, step, noted)
    refusal = record.refusal(step)
    return NextAct(Act.WAIT, message=refusal) if refusal else NextAct(Act.BEGIN, step)


def _under_way(plan: RepairPlan, begun: Sequence[PlannedMove], record: PlanRecord, view: ClusterView) -> NextAct:
    """Evict what is still there; note successors, and moves that took too long."""
    noted: list[MoveProgress] = []
    staying: list[PlannedMove] = []
    for move in begun:
        progress = plan.progress(move.uid)
        pod = view.pod(move)
        if progress is None:
            continue
        if pod is not None and not pod.is_deleting:
            staying.append(move)
        successor = view.successor(move, progress.place) if move.target else Successor("", "")
        if pod is None and successor is not None:
            noted.append(_settled(progress, MoveState.MOVED, successor))
        elif record.now - seconds_of(progress.time) > record.settings.successor_seconds:
            what = "it was not evicted" if pod is not None else "no successor came to its room"
            message = f"pod {move.pod}: {what} within {record.settings.successor_seconds} s"
            noted.append(_settled(progress, MoveState.FAILED, None, message))
    if noted:
        return NextAct(Act.SETTLE, noted=tuple(noted))
    return NextAct(Act.EVICT, tuple(staying)) if staying else NextAct(Act.WAIT)


def _settled(progress: MoveProgress, state: MoveState, successor: Successor | None, message: str = "") -> MoveProgress:
    name, uid = successor or ("", "")
    return replace(progress, state=state, successor=name, successor_uid=uid, message=message)


def _finished(plan: RepairPlan, record: PlanRecord, view: ClusterView) -> NextAct:
    """All pods are moved: the plan is done when the wanted pods have their places."""
    if view.are_wanted_placed():
        return NextAct(Act.END, state=PlanState.DONE)
    last = max((seconds_of(each.time) for each in plan.status.moves), default=record.now)
    if record.now - last > 2 * record.settings.successor_seconds:
        return NextAct(Act.END, state=PlanState.STOPPED, message="the pods did not get the room that was made for them")
    return NextAct(Act.WAIT)
