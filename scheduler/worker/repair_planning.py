"""What a child of the worker does for the repairing controller: find moves, or judge those that are planned."""

from itertools import groupby

from scheduler.worker import frames
from scheduler.worker.recording import seen_by_repairs
from solver import SolverCache, goals_of, once_left, plan_moves, verify
from solver.domain import Batch, Budget, GoalKind, Move, Relocation, RepairGoal, Snapshot, Violation


def repair_planned(order: frames.PlanRepair, cache: SolverCache, snapshot: Snapshot) -> frames.RepairPlanned:
    """Answer an order; room that repairs hold is theirs, other room counts as taken."""
    snapshot = seen_by_repairs(snapshot, [place for _, place in order.under_way])
    if order.goal is not None and order.planned is not None:
        waiting = (*order.waiting.pods, *order.goal.wanted.pods)
        snapshot = once_left(snapshot, [uid for uid, _ in order.under_way], waiting)
        violations = _gone(snapshot, order, cache) or still_possible(snapshot, order.goal, order.planned, order)
        return frames.RepairPlanned(id=order.id, goal=order.goal, violations=violations)
    goals = goals_of(snapshot, order.waiting, order.policy, order.targets, cache)
    kinds = [tuple(kind) for _, kind in groupby(goals, lambda goal: goal.kind)]
    failures: list[tuple[str, str]] = []
    budget = Budget(seconds=order.seconds, deterministic_seconds=order.seconds, workers=order.workers)
    for number, kind in enumerate(kinds, start=1):
        # Each kind has its share: however many pods wait that no moves help, failed devices are looked at, too.
        part = budget.until(number / len(kinds))
        for goal in [goal for goal in kind if goal.subject not in order.skipped][: frames.MOST_GOALS]:
            if part.should_stop():
                break
            found = plan_moves(snapshot, goal, order.policy, part, order.rules)
            if found.is_found and found.moves and found.is_stepwise:
                return frames.RepairPlanned(id=order.id, goal=goal, found=found, failures=tuple(failures))
            failures.append((goal.subject, _why(found)))
    return frames.RepairPlanned(id=order.id, failures=tuple(failures))


def _gone(snapshot: Snapshot, order: frames.PlanRepair, cache: SolverCache) -> tuple[Violation, ...]:
    """Say that nothing is wrong any more with what a goal is about; whether wanted pods wait shows in their places."""
    goal = order.goal
    if goal is None or goal.kind is GoalKind.WAITING:
        return ()
    goals = goals_of(snapshot, Batch(pods=()), order.policy, order.targets, cache)
    if any((each.kind, each.subject) == (goal.kind, goal.subject) for each in goals):
        return ()
    return (Violation(rule="GoalGone", subject=goal.subject, message="nothing is wrong with it any more"),)


def _why(found: Relocation) -> str:
    """Say why a goal has no plan; empty where it needs no moves."""
    if not found.is_found:
        return found.reason
    return "" if found.is_stepwise else "the moves depend on each other in a cycle"


def still_possible(
    snapshot: Snapshot, goal: RepairGoal, planned: Relocation, order: frames.PlanRepair
) -> tuple[Violation, ...]:
    """Return what the moves of a plan, and the places of the wanted pods after them, break on the present cluster."""
    checker = verify.MoveChecker(snapshot, goal, order.policy)
    steps: dict[int, list[Move]] = {}
    for move in planned.moves:
        steps.setdefault(move.step, []).append(move)
    for step in sorted(steps):
        if found := checker.step(steps[step]):
            return found
    return checker.finish(planned.placements, planned.allocations)
