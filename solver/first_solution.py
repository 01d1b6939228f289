"""The solution that a search begins with: the best of the greedy's, or for one pod the best of all ways."""

from collections import Counter
from functools import reduce
from operator import and_
from typing import NamedTuple

from solver import greedy
from solver.domain import Budget, Reason, SearchStage
from solver.model.objective import best_of
from solver.problem.problem import Problem
from solver.problem.quotas import batch_quotas, surplus
from solver.problem.skipped_pods import NOT_REACHED
from solver.search import exhaustive, scoring
from solver.search.exhaustive import BestWay
from solver.solution import Solution, quotas_beside


class FirstSolution(NamedTuple):
    """
    A first solution of a problem, and why pods without a place were not tried, by family.

    `part` is the problem without the pods that limits keep back whatever is chosen: what is searched for a better
    solution. `best` is the best way to place one pod, where no search can find better.
    """

    whole: Problem
    part: Problem
    solution: Solution
    not_tried: Counter[int]
    best: BestWay | None = None

    @classmethod
    def of(cls, problem: Problem, budget: Budget, *, searches: bool) -> "FirstSolution":
        """Place what can be placed; where nothing is searched, also one pod alone by the greedy."""
        best = _best_of_all_ways(problem, budget) if searches else None
        if best is not None:
            return cls(problem, problem, best.solution, Counter(), best)
        part = surplus.without_surplus(problem)
        stop = budget.at_least(budget.params.greedy_wall_share).at("greedy").should_stop
        tried = greedy.candidates(part, stop)
        unreached = reduce(and_, (each.unreached for each in tried))
        kept_back = Counter({each: problem.classes[each].size - part.classes[each].size for each in unreached})
        return cls(problem, part, best_of(part, tried), unreached + kept_back)

    def is_contended(self) -> bool:
        """Whether not all pods fit, and one of another quota may have what a waiting pod needs."""
        problem = self.whole
        placed = Counter(problem.classes[choice.pod_class].family for choice in self.solution.choices)
        if self.not_tried or placed.total() == len(problem.batch.pods):
            return False
        return batch_quotas.is_contended(problem, quotas_beside(problem, self.solution), placed)

    def reasons_not_tried(self, solution: Solution) -> dict[int, tuple[Reason, ...]]:
        """Return the reason of pods that the greedy did not try and that have no place in a solution."""
        if not self.not_tried:
            return {}
        placed = Counter(self.whole.classes[choice.pod_class].family for choice in solution.choices)
        found: dict[int, tuple[Reason, ...]] = {}
        for number, count in self.not_tried.items():
            waiting = self.whole.classes[number].members[placed[number] :]
            found.update((position, (NOT_REACHED,)) for position in waiting[-count:])
        return found


def _best_of_all_ways(problem: Problem, budget: Budget) -> BestWay | None:
    """Serve one pod in the best of all ways, so that neither greedy nor search is needed; None where it is not."""
    try:
        return exhaustive.best(scoring.without_scores(problem), budget.at("search"))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, the budget says whether it is raised
        budget.note_defect(SearchStage.EXHAUSTIVE, error)
        return None
