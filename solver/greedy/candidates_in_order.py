"""
The candidates for the first solution of the search, and for the plan where the budget ends.

The best of them wins, and the first-fit plan in queue order is always one.
"""

from collections.abc import Callable

from solver.domain import SearchStage
from solver.greedy.device_fit import FitCache
from solver.greedy.greedy import Greedy, Order, largest, never
from solver.problem.problem import Problem
from solver.solution import Solution


def candidates(problem: Problem, stop: Callable[[], bool] = never) -> list[Solution]:
    """
    Return the solutions of first fit, best fit and best fit with small pods first; no order dominates another.

    Where devices count, and not pods, large ones come first in place of small ones.
    Each ends where it is once `stop` says so, and none begins after that. First fit runs first, and tries one pod or
    gang at least. The others run only if it tried all pods, the last one only if best fit does not place all of them,
    and only if it takes them in another order.
    """
    fit_cache = FitCache(problem)
    first_fit = Greedy(problem, fit_cache, Order.QUEUE_FIRST_FIT).run(stop)
    if first_fit.unreached or stop():
        return [first_fit]
    runs = problem.params.runs
    found = [first_fit]
    fits_best = runs(SearchStage.GREEDY_BEST_FIT)
    if fits_best:
        found.insert(0, Greedy(problem, fit_cache, Order.QUEUE_BEST_FIT).run(stop))
    if len(found[0].choices) == sum(family[0].size for family in problem.families):
        return found
    if runs(SearchStage.GREEDY_SMALL_FIRST) and not (fits_best and _are_of_one_size(problem)) and not stop():
        order = Order.LARGE_BEST_FIT if problem.policy.counts_devices else Order.SMALL_BEST_FIT
        found.append(Greedy(problem, fit_cache, order).run(stop))
    return found


def _are_of_one_size(problem: Problem) -> bool:
    """Whether all pods of a tier ask for the same number of devices, so that by size they go as in the queue."""
    sizes = {(family[0].tier, largest(problem, family)) for family in problem.families if family[0].size}
    return len(sizes) == len({tier for tier, _ in sizes})
