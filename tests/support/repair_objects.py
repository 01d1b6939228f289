"""RepairPlans as values."""

from collections.abc import Sequence

from scheduler.kube.repair_plans import (
    MoveProgress,
    MoveState,
    PlanDecision,
    PlanGoal,
    PlanMetadata,
    PlannedMove,
    PlanSpec,
    PlanState,
    PlanStatus,
    RepairPlan,
    now_text,
)

NOW = 1_800_000_000.0


def move(name: str, *, step: int = 1, namespace: str = "team", controller: str = "rs", to: str = "n2") -> PlannedMove:
    return PlannedMove(
        step=step,
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        controller_uid=controller,
        source="n1",
        target=to,
    )


def evicted(name: str, age: float, state: MoveState = MoveState.EVICTING, *, successor: str = "") -> MoveProgress:
    """What became of a move that was begun so many seconds ago."""
    uid = f"uid-{successor}" if successor else ""
    return MoveProgress(
        uid=f"uid-{name}", state=state, time=now_text(NOW - age), successor=successor, successor_uid=uid
    )


def plan(
    *moves: PlannedMove,
    done: Sequence[MoveProgress] = (),
    state: PlanState = PlanState.RUNNING,
    decision: PlanDecision = PlanDecision.APPROVED,
) -> RepairPlan:
    spec = PlanSpec(goal=PlanGoal(kind="Waiting", subject="pod team/x"), moves=moves, decision=decision)
    status = PlanStatus(state=state, moves=tuple(done), since=done[-1].time if done else now_text(NOW))
    return RepairPlan(metadata=PlanMetadata(name="repair-1", uid="uid-plan"), spec=spec, status=status)
