"""
The level `scores`, after everything else is decided: pods without devices are placed by node scores.

The bound is the linear relaxation of these pods alone, on nodes with the room from before the batch; nodes that are far
from cheap are merged into groups, each as cheap as its cheapest node, and all rules among pods are left out. The same
relaxation beside all other pods, rounded and completed by the greedy, is mostly the best plan. What is small and still
open is left to the exact model.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from solver.domain import Budget, LevelReport, SearchStage
from solver.engines import linear
from solver.engines.linear import TOLERANCE
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import build
from solver.model.cells import Cell, Cells
from solver.model.form import Expression, OutOfTimeError
from solver.model.objective import Values, evaluate
from solver.model.variables import Variables
from solver.problem.costs.cost_model import CostModel, SpreadCost
from solver.problem.costs.scores import best_case
from solver.problem.node_arrays import PODS, Room
from solver.problem.problem import SCORES, PodClass, Problem, Requests
from solver.problem.rules_among_pods import PodRules
from solver.search import bound, exact, stages
from solver.search.bound import Bounds, ContradictionError, guarded, proves
from solver.search.exhaustive import BestWay
from solver.search.stages import SearchResult
from solver.solution import Choice, Solution


@dataclass(frozen=True, slots=True)
class Scored:
    """A solution, the bound on its scores that holds as long as the levels before it stand, and what it took."""

    solution: Solution
    bound: int
    deterministic_seconds: float = 0.0


def improve_scores(problem: Problem, solution: Solution, spent: float, budget: Budget) -> Scored:
    """Bound the scores of a solution whose earlier levels are the best there are, and look for better ones."""
    known = evaluate(problem, solution)
    limit = scores_bound(problem, known, budget)
    if limit > known[-1] and not budget.should_stop():
        solution = max(solution, _rounded(problem, solution, budget), key=lambda each: evaluate(problem, each))
        known = evaluate(problem, solution)
    if limit <= known[-1] or build.estimated_terms(problem) > problem.params.scores_exact_terms or budget.should_stop():
        return Scored(solution, limit)
    left = min(budget.deterministic_seconds - spent, bound.packing_seconds(problem, budget))
    rest = replace(budget, deterministic_seconds=max(0.0, left))
    found = exact.improve(problem, solution, Bounds((*known[:-1], limit), (0, 0)), rest)
    return Scored(found.solution, found.levels[-1].bound, found.deterministic_seconds)


def scores_bound(problem: Problem, known: Values, budget: Budget) -> int:
    """Return a value of the scores that no solution exceeds while the earlier levels are what they are known to be."""
    part = _of(problem, {each.index: each.size for each in problem.classes if _is_scored(each)})
    try:
        form = build.build(part, _cells(part), stop=budget.should_stop).form
    except OutOfTimeError:
        return 0
    for level, placed, value in zip(form.levels, problem.placed_levels, known, strict=False):
        elsewhere = sum(
            max(0, family[0].size * placed.worth.get(family[0].index, 0))
            for family in problem.families
            if not all(map(_is_scored, family))
        )
        form.require(level.expression, "placed", low=value - elsewhere)
    found = linear.bound(form, form.levels[-1].expression, budget.remaining_seconds())
    if found.is_infeasible:
        raise ContradictionError(f"level {SCORES}: the relaxation has no solution beside one that is known")
    return 0 if found.value is None else min(0, found.value)


def placed_again(problem: Problem, solution: Solution) -> Solution:
    """Place pods that take no device and share nothing again, one by one, if all of them find a place."""
    loose = _loose(problem)
    fixed = [choice for choice in solution.choices if choice.pod_class not in loose]
    moved = [choice.pod_class for choice in solution.choices if choice.pod_class in loose]
    return _better(problem, solution, fixed, moved) if moved else solution


def _rounded(problem: Problem, solution: Solution, budget: Budget) -> Solution:
    """Place them as the relaxation would around all others; what it splits is placed one by one."""
    loose = frozenset() if problem.requests.takes_node_resources else _loose(problem)
    fixed = [choice for choice in solution.choices if choice.pod_class not in loose]
    moved = Counter(choice.pod_class for choice in solution.choices if choice.pod_class in loose)
    if not moved:
        return solution
    part = _of(problem, moved)
    part = replace(part, available=replace(part.available, room=_room_beside(problem, fixed)))
    try:
        variables = build.build(part, _cells(part), stop=budget.should_stop)
    except OutOfTimeError:
        return solution
    for each, counted in variables.by_class().items():
        all_of_class = Expression(dict.fromkeys((variable for _, variable in counted), 1))
        variables.form.require(all_of_class, "placed", low=moved[each])
    found = linear.solve(variables.form, variables.form.levels[-1].expression, budget.remaining_seconds())
    if found is None:
        return solution
    whole = _whole(variables, found.values, part.available.room)
    moved.subtract(choice.pod_class for choice in whole)
    return _better(problem, solution, fixed + whole, sorted(moved.elements()))


def _whole(variables: Variables, found: tuple[float, ...], room: Room) -> list[Choice]:
    """Take what the relaxation places on single nodes, rounded down; to be exact, only as far as there is room."""
    taken: list[Choice] = []
    for (pod_class, cell), variable in variables.pods.items():
        place, requests = variables.cell(cell), variables.problem.classes[pod_class].requests
        if len(place.nodes) > 1:
            continue
        for _ in range(int(found[variable] + TOLERANCE)):
            if all(room.of(resource)[place.nodes[0]] >= amount for resource, amount in ((PODS, 1), *requests)):
                _take(room, Choice(pod_class, place.nodes[0], ()), requests)
                taken.append(Choice(pod_class, place.nodes[0], ()))
    return taken


def _take(room: Room, choice: Choice, requests: Requests) -> None:
    for resource, amount in ((PODS, 1), *requests):
        room.change(resource, choice.node, -amount)


def _better(problem: Problem, solution: Solution, fixed: list[Choice], rest: list[int]) -> Solution:
    """Place the rest beside what is fixed; the solution known where that is not possible or not better."""
    greedy = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).start()
    for choice in fixed:
        greedy.occupy(choice)
    if not all(greedy.place((problem.classes[each],), {}) for each in rest):
        return solution
    fresh: list[Choice] = greedy.solution.choices
    candidate = Solution([*fixed, *fresh], solution.shared)
    return candidate if evaluate(problem, candidate) > evaluate(problem, solution) else solution


def _is_scored(pod_class: PodClass) -> bool:
    return not pod_class.parts and not pod_class.shared


def _loose(problem: Problem) -> frozenset[int]:
    """Classes whose pods can be placed anew without a look at anything but room and scores."""
    if problem.costs.preferences:
        return frozenset()
    alone = Counter(each.family for each in problem.classes)
    return frozenset(
        each.index
        for each in problem.classes
        if _is_scored(each) and alone[each.family] == 1 and not problem.is_coupled(each)
    )


def _of(problem: Problem, sizes: dict[int, int]) -> Problem:
    """The problem of some classes with `sizes` pods each: room and scores, without claims and rules between pods."""
    classes = [
        replace(each, members=each.members[: sizes.get(each.index, 0)], sources=[], specials=[])
        for each in problem.classes
    ]
    policy = structs.replace(problem.policy, levels=(SCORES,))
    cost_models = replace(problem.costs, scores=_by_pod(problem.costs.scores))
    available = replace(problem.available, wide_state=())
    rules = PodRules(reserved=problem.rules.reserved)
    return replace(
        problem, classes=classes, shared=[], policy=policy, costs=cost_models, available=available, rules=rules
    )


def _by_pod(cost_model: CostModel) -> CostModel:
    """The same costs; what the first pod of a spread costs on a node is counted for each pod, so that nodes differ."""
    of_class, spread_costs = dict(cost_model.of_class), list[SpreadCost]()
    for spread_cost in cost_model.spread_costs:
        if not np.array_equal(spread_cost.domain_of, np.arange(len(spread_cost.base))):
            spread_costs.append(spread_cost)
            continue
        for each in spread_cost.classes:
            of_class[each] = of_class[each] + spread_cost.base
        spread_costs.append(replace(spread_cost, base=np.zeros_like(spread_cost.base)))
    return CostModel(of_class, tuple(spread_costs))


def _room_beside(problem: Problem, fixed: list[Choice]) -> Room:
    """What nodes have left beside some pods."""
    room = problem.available.room.copy()
    for choice in fixed:
        _take(room, choice, problem.classes[choice.pod_class].requests)
    return room


def _cells(problem: Problem) -> Cells:
    """Nodes that are cheap for some class, each alone; the others by cost, and by the zones that they are in."""
    rank = np.full(problem.node_count, problem.node_count, dtype=np.int64)
    for each in (each for each in problem.classes if each.size):
        open_nodes = np.flatnonzero(each.verdicts.allowed & problem.available.room.fits(each.requests))
        order = open_nodes[np.argsort(problem.costs.scores.of_class[each.index][open_nodes], kind="stable")]
        rank[order] = np.minimum(rank[order], np.arange(len(order)))
    nodes = np.argsort(rank, kind="stable")[: np.count_nonzero(rank < problem.node_count)].tolist()
    most, places = problem.params.scores_single_nodes, problem.params.scores_places
    near = min(most, places // max(1, sum(each.size for each in problem.classes)))
    cells = Cells()
    for together in (*((node,) for node in nodes[:near]), *_grouped(problem, nodes[near:])):
        group, state = problem.group(together[0]), problem.available.states[together[0]]
        cells.places.append(Cell(len(cells.places), together, group, state, is_unused=False))
    return cells


def _grouped(problem: Problem, nodes: list[int]) -> Iterable[tuple[int, ...]]:
    """Bring nodes together that come one after the other and are in the same zone of every sort."""
    spread_costs = [
        spread_cost
        for spread_cost in problem.costs.scores.spread_costs
        if len(spread_cost.base) <= problem.params.scores_domains
    ]
    found: dict[tuple[int, ...], list[int]] = {}
    for position, node in enumerate(nodes):
        zones = (int(spread_cost.domain_of[node]) for spread_cost in spread_costs)
        found.setdefault((position * problem.params.scores_ranks // len(nodes), *zones), []).append(node)
    return map(tuple, found.values())


def without_scores(problem: Problem) -> Problem:
    """Return the same problem without the level `scores`: the other stages, and node classes, do not look at it."""
    others = tuple(name for name in problem.policy.levels if name != SCORES)
    return replace(problem, policy=structs.replace(problem.policy, levels=others))


def search_and_score(problem: Problem, start: Solution | BestWay, budget: Budget) -> SearchResult:
    """
    Search all other levels (`stages.search_from`), then place pods without devices by scores.

    Where the exhaustive search found the start, no better one is looked for.
    """
    others = without_scores(problem)
    if isinstance(start, BestWay):
        found, start = stages.proven(others, start), start.solution
    else:
        found = stages.search_from(others, start, budget)
    if SCORES not in problem.policy.levels:
        return found
    is_moved = found.solution is not start
    best = placed_again(problem, found.solution) if is_moved else found.solution

    def run() -> Scored:
        scored = Scored(best, _trivial_upper_bound(problem, best))
        is_open = found.is_proven and scored.bound > evaluate(problem, best)[-1]
        if is_open and problem.params.runs(SearchStage.SCORES_LP):
            scored = improve_scores(problem, best, found.deterministic_seconds, budget)
        proves(SCORES, scored.bound, evaluate(problem, scored.solution)[-1])
        return scored

    scored = guarded(SearchStage.SCORES_LP, budget, run, Scored(best, 0))
    value = evaluate(problem, scored.solution)[-1]
    level = LevelReport(name=SCORES, value=value, bound=scored.bound, proven=found.is_proven and scored.bound == value)
    return replace(
        found,
        solution=scored.solution,
        levels=(*found.levels, level),
        stages=found.stages if scored.solution is start else (*found.stages, SearchStage.SCORES_LP),
        deterministic_seconds=found.deterministic_seconds + scored.deterministic_seconds,
    )


def _trivial_upper_bound(problem: Problem, solution: Solution) -> int:
    """Return a simple upper bound: the scores if each pod had its best place; 0 if a pod waits."""
    placed = Counter(problem.classes[choice.pod_class].family for choice in solution.choices)
    all_placed = all(len(family) == 1 and placed[family[0].index] == family[0].size for family in problem.families)
    return -best_case(problem.costs.scores, problem.classes, problem.available.room) if all_placed else 0
