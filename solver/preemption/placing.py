"""Whether some pods fit a cluster as it would be, all of them, and where."""

from solver import greedy
from solver.domain import Batch, Budget, Policy, Snapshot
from solver.extract import Extracted, extract
from solver.problem.memory import Engine
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.search import staged
from solver.search.values import best
from solver.solution import Solution


def place_all(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, engine: Engine) -> Extracted | None:
    """Place every pod of a batch, or give None."""
    problem = prepare(snapshot, batch, policy, engine)
    found = solution(problem, budget)
    placed = None if found is None else extract(problem, found)
    # The limits of volumes are necessary and not sufficient: extraction may drop pods that the model places.
    return None if placed is None or len(placed.placements) < len(batch.pods) else placed


def solution(problem: Problem, budget: Budget) -> Solution | None:
    """Place every pod of a problem: greedily, and by search where that does not do."""
    if problem.rejected:
        return None
    start = best(problem, greedy.candidates(problem))
    if _is_whole(problem, start):
        return start
    if budget.should_stop():
        return None
    found = staged.search(problem, start, budget).solution
    return found if _is_whole(problem, found) else None


def _is_whole(problem: Problem, found: Solution) -> bool:
    return len(found.choices) == len(problem.batch.pods)
