"""
Column generation: bound level after level over node classes, and find solutions from the columns.

The master and the pricing (`columns`) prove a bound (Dantzig and Wolfe 1960). Where a level stays open, two heuristics
look for a solution that meets it. The restricted master takes the columns known by now in whole numbers. The dive takes
columns one after the other, and prices again for what is left. The value of the rest's relaxation shows at once whether
a column was a mistake; then the dive takes it back (limited backtracking). The last nodes of a dive are solved exactly.
Invariant: a column counts only while all of its pods are left. So the relaxation of the rest is a valid bound for it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import le
from typing import Final, NamedTuple

from solver.domain import Budget, SearchStage
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.engines.linear import TOLERANCE
from solver.model import objective
from solver.model.form import Expression, IntegerForm
from solver.model.objective import Values, evaluate, level_names
from solver.problem.problem import Problem
from solver.search import bound, columns, restricted_problem
from solver.search.bound import BoundedSolution, Bounds, ContradictionError
from solver.search.columns import Column, ColumnPool, Master
from solver.solution import Choice, Solution

_NO_CEILING: Final = 1 << 50


class DiveResult(NamedTuple):
    """A solution, and the nodes that were filled last: the exact model solves these again (`exact-rest`)."""

    solution: Solution
    last_nodes: list[int]


@dataclass(slots=True, eq=False)
class _Dive:
    """
    A solution in the making.

    What levels have to reach yet; nodes still free by each; pods left by family; what limits of added nodes leave.
    """

    pool: ColumnPool
    required: Values
    free: list[list[int]]
    left: Counter[int]
    limits: list[int]
    choices: list[Choice] = field(default_factory=list)

    def after(self, columns: Mapping[Column, int]) -> "_Dive":
        """What it is with some columns taken."""
        free, left = [list(nodes) for nodes in self.free], Counter(self.left)
        state = _Dive(self.pool, self.required, free, left, list(self.limits), list(self.choices))
        for column, count in columns.items():
            for _ in range(count - state.take_whole(column, count)):
                state.take(column)
        return state

    def nodes(self) -> list[int]:
        """Nodes that are free."""
        return sorted(node for nodes in self.free for node in nodes)

    def is_small(self) -> bool:
        """Whether the exact model of the free nodes would be small."""
        pods = sum(1 for count in self.left.values() if count)
        pairs = list(zip(self.pool.node_classes, self.free, strict=True))
        size = sum(len(nodes) * (pods + each.other_variables()) for each, nodes in pairs)
        params = self.pool.problem.params
        return size <= params.dive_rest_variables or sum(len(nodes) for _, nodes in pairs) <= params.dive_rest_nodes

    def solve_rest(self, level: int) -> Master:
        """Solve the master of the nodes and pods that are left."""
        rest = replace(self.pool, nodes=[len(nodes) for nodes in self.free], pods=self.left, limits=self.limits)
        found = rest.bound(level, self.required, _NO_CEILING)
        self.pool.spent = rest.spent
        return found

    def surplus(self, master: Master) -> int:
        """Return the surplus: what the relaxation of the rest can reach, less what is still required."""
        return math.floor(master.score + TOLERANCE) - self.required[master.level]

    def take_whole(self, column: Column, count: int) -> int:
        """Put a column on free nodes as often as all of its pods are left, `count` times at most; say how often."""
        free, sizes = self.free[column.node_class], self.pool.sizes(column.node_class)
        if not all(map(le, sizes, self.limits)):
            return 0
        count = min([count, len(free), *(self.left[family] // each for family, each in column.counts)])
        count = min([count, *(left // size for size, left in zip(sizes, self.limits, strict=True) if size)])
        choices = self.pool.choices(column)
        self.choices += (choice._replace(node=node) for node in free[:count] for choice in choices)
        del free[:count]
        for family, each in column.counts:
            self.left[family] -= each * count
        self.limits = [left - size * count for size, left in zip(sizes, self.limits, strict=True)]
        self.required = tuple(value - each * count for value, each in zip(self.required, column.worth, strict=True))
        return count

    def take(self, column: Column) -> bool:
        """Put a column on a free node, as far as its pods are left; False without node, pod, or room in limits."""
        taken, held = Counter[int](), []
        sizes = self.pool.sizes(column.node_class)
        is_open = self.free[column.node_class] and all(map(le, sizes, self.limits))
        for choice in self.pool.choices(column) if is_open else ():
            family = self.pool.problem.classes[choice.pod_class].family
            if taken[family] < self.left[family]:
                taken[family] += 1
                held.append(choice._replace(node=self.free[column.node_class][0]))
        if held:
            self.free[column.node_class].pop(0)
            self.limits = [left - size for left, size in zip(self.limits, sizes, strict=True)]
            self.left -= taken
            self.choices += held
            takes_whole_column = taken == Counter(dict(column.counts))
            worth = column.worth if takes_whole_column else evaluate(self.pool.problem, Solution(held))
            self.required = tuple(value - placed for value, placed in zip(self.required, worth, strict=True))
        return bool(held)


def dive(pool: ColumnPool, master: Master, fixed_part: Solution) -> DiveResult:
    """Round a solved master to a solution (diving heuristic); `fixed_part` holds the choices outside the columns."""
    params, free = pool.problem.params, [list(each.nodes) for each in pool.node_classes]
    state = _Dive(pool, master.known, free, Counter(pool.pods), list(pool.limits))
    target, mistakes, last_nodes = state.surplus(master), 0, None
    while master.used and not pool.is_spent():
        if last_nodes is None and state.is_small():
            last_nodes = state.nodes()
        tried: list[tuple[int, _Dive, Master]] = []
        for move in _moves(master, params.dive_tries):
            after = state.after(move)
            rest = after.solve_rest(master.level)
            tried.append((after.surplus(rest), after, rest))
            if tried[-1][0] >= target or mistakes >= params.dive_mistakes or pool.is_spent():
                break
            mistakes += 1
        reached, state, master = max(tried, key=lambda each: each[0])
        target = min(target, reached)
    last_nodes = state.nodes() if last_nodes is None else last_nodes
    for column, _ in _in_order(master):
        while state.take(column):
            pass
    return DiveResult(Solution(fixed_part.choices + state.choices, fixed_part.shared), last_nodes)


def solution_of(pool: ColumnPool, known: Values, used: Mapping[Column, int], fixed_part: Solution) -> Solution:
    """Make a solution of columns with their multiplicity (`used`); pods that were placed already are left out."""
    free = [list(each.nodes) for each in pool.node_classes]
    state = _Dive(pool, known, free, Counter(pool.pods), list(pool.limits)).after(used)
    return Solution(fixed_part.choices + state.choices, fixed_part.shared)


def _moves(master: Master, tries: int) -> Iterator[Mapping[Column, int]]:
    """What can be taken next: all that is used at least once, as often; else single columns, most used first."""
    ordered = _in_order(master)
    whole = {column: math.floor(count + TOLERANCE) for column, count in ordered if count + TOLERANCE >= 1}
    if whole:
        yield whole
    yield from ({column: 1} for column, _ in ordered[:tries])


def _in_order(master: Master) -> list[tuple[Column, float]]:
    """Columns by how much they are used, most first; the same on every machine."""
    order = sorted(master.used.items(), key=lambda item: (item[0].node_class, item[0].counts, item[0].worth))
    return sorted(order, key=lambda item: -round(item[1], 6))


def solve_restricted_master(pool: ColumnPool, master: Master, hint: Counter[Column], ceiling: int) -> Counter[Column]:
    """
    Choose how often each column is used, so that a level is worth most and earlier ones keep their values.

    `hint` is such a choice, `ceiling` a bound of the level. Empty where none was found, or where there is too much.
    """
    columns, params = list(pool.columns.values()), pool.problem.params
    if pool.is_spent() or len(columns) > params.master_columns:
        return Counter()
    form, levels, used = _form(pool, columns, master.level)
    for expression, value in zip(levels[:-1], master.known, strict=False):
        form.require(expression, "earlier level", low=value)
    values = [hint[column] for column in columns]
    served: Counter[int] = Counter()
    for column in columns:
        for family, count in column.counts:
            served[family] += count * hint[column]
    values += [min(served[family], pool.pods[family]) for family in used]
    budget = pool.budget
    seconds = min(params.master_seconds, budget.deterministic_seconds - pool.spent)
    effort = Effort.within(budget, seconds, presolve=True)
    result = cpsat.maximize(form, levels[-1], effort, hint=values, cutoff=ceiling)
    pool.spent += result.deterministic_seconds + params.pricing_overhead_seconds
    if result.status is EngineStatus.INFEASIBLE:
        raise ContradictionError("the restricted master has no solution beside the one that is known")
    found = result.values or []
    return Counter({column: count for column, count in zip(columns, found, strict=False) if count})


def _form(pool: ColumnPool, columns: list[Column], level: int) -> tuple[IntegerForm, list[Expression], list[int]]:
    """Count columns, then pods by family that the used columns serve; the levels up to one; the families."""
    form = IntegerForm()
    nodes: defaultdict[int, Expression] = defaultdict(Expression)
    served: defaultdict[int, Expression] = defaultdict(Expression)
    levels = [Expression() for _ in range(level + 1)]
    placed = pool.problem.placed_levels
    for column in columns:
        variable = form.variable(0, pool.nodes[column.node_class])
        nodes[column.node_class].add(variable)
        for family, count in column.counts:
            served[family].add(variable, -count)
        for index in range(len(placed), level + 1):
            if column.worth[index]:
                levels[index].add(variable, column.worth[index])
    for each, total in nodes.items():
        form.require(total, "nodes of a class", high=pool.nodes[each])
    _limit_added_nodes(form, pool, nodes)
    for family, total in served.items():
        variable = form.variable(0, pool.pods[family])
        total.add(variable)
        form.require(total, "each pod once", high=0)
        for expression, (_, worth) in zip(levels, placed, strict=False):
            if worth.get(family):
                expression.add(variable, worth[family])
    return form, levels, list(served)


def _limit_added_nodes(form: IntegerForm, pool: ColumnPool, nodes: Mapping[int, Expression]) -> None:
    for number, left in enumerate(pool.limits):
        limited = Expression()
        for each, total in nodes.items():
            limited.add_scaled(total, pool.sizes(each)[number])
        form.require(limited, "limit of added nodes", high=left)


def improve(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> BoundedSolution | None:
    """Bound and improve until a level stays open; None with too many node classes, or where nodes are coupled."""
    cost_model = problem.costs.preferences
    if problem.available.wide_state or cost_model.spread_costs or cost_model.affinity_costs:
        return None
    fixed = restricted_problem.fixed_nodes(problem, start)
    nodes = [node for node in range(problem.node_count) if node not in fixed]
    fixed_part = Solution([choice for choice in start.choices if choice.node in fixed], start.shared)
    part = restricted_problem.restricted(problem, fixed_part, nodes, by_quotas=True)
    if level_names(part) != level_names(problem):
        return None  # a level about rules among pods: columns of single nodes do not see it
    found = columns.node_classes(part, nodes, problem.params.node_classes, budget.should_stop)
    if not found:
        return None
    pods = Counter({family[0].family: family[0].size for family in part.families})
    limits = [limit.left for limit in part.costs.node_limits]
    pool = ColumnPool(part, found, [len(each.nodes) for each in found], pods, budget, limits)
    pool.learn(start)
    known = evaluate(problem, start)
    only_packing = bound.only_packing_open(problem, bound.levels_from_bounds(problem, known, bounds))
    search = _Search(problem, pool, fixed_part, start, known, list(bounds.levels), only_packing)
    is_complete = not any(problem.is_coupled(each) for each in problem.classes)
    while not pool.is_spent() and search.level(is_complete=is_complete):
        pass
    return BoundedSolution(search.best, Bounds(tuple(search.bounds), bounds.size), pool.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """The best solution so far and what bounds it."""

    problem: Problem
    pool: ColumnPool
    fixed_part: Solution
    best: Solution
    known: Values
    bounds: list[int | None]
    only_packing: bool = False

    def level(self, *, is_complete: bool) -> bool:
        """Work on the first level that is open; whether it was closed and another one is open."""
        level, params, known_levels = self._first_open(), self.problem.params, objective.objective_levels(self.problem)
        if level is None:
            return False
        if not known_levels[level].decides_pods:
            self._limit_to_packing()
        ceiling = self.bounds[level]
        trivial = known_levels[level].upper_bound(self.problem)
        fixed = evaluate(self.problem, self.fixed_part)
        known = tuple(value - part for value, part in zip(self.known, fixed, strict=True))
        master = self.pool.bound(level, known, (trivial if ceiling is None else ceiling) - fixed[level])
        bound = master.bound + fixed[level]
        if is_complete:
            self.bounds[level] = bound
        if bound > self.known[level] and master.used and params.runs(SearchStage.RESTRICTED_MASTER):
            self._run_restricted_master(master)
        if bound > self.known[level] and master.used and params.runs(SearchStage.DIVE):
            self._dive(level, dive(self.pool, master, self.fixed_part))
        return is_complete and self.known[level] >= bound

    def _first_open(self) -> int | None:
        """Return the first open level, unless a level that columns cannot bound (no sum over nodes) precedes it."""
        for index, level in enumerate(objective.objective_levels(self.problem)):
            limit = self.bounds[index]
            if not level.is_separable:
                return None
            if limit is None or limit > self.known[index]:
                return index
        return None

    def _limit_to_packing(self) -> None:
        """From now on spend half of what packing may cost at most: the rest of it is for the exact model."""
        pool = self.pool
        if not self.only_packing:
            self.only_packing = True
            left = replace(pool.budget, deterministic_seconds=pool.budget.deterministic_seconds - pool.spent)
            rest = bound.for_packing(self.problem, left)
            seconds = pool.spent + rest.deterministic_seconds / 2
            pool.budget = replace(rest, deterministic_seconds=seconds)

    def _run_restricted_master(self, master: Master) -> None:
        """Adopt the best combination of the columns known, if it is better."""
        used = solve_restricted_master(self.pool, master, self.pool.learn(self.best), master.bound)
        if used:
            self._adopt(solution_of(self.pool, master.known, used, self.fixed_part))

    def _dive(self, level: int, found: DiveResult) -> None:
        """Solve the last nodes of a dive exactly and keep what is better."""
        (solution, last_nodes), params = found, self.problem.params
        is_small = 0 < len(last_nodes) <= params.exact_rest_nodes and params.runs(SearchStage.EXACT_REST)
        for presolve in (False, True):
            if not is_small or self.pool.is_spent():
                break
            effort = Effort.within(self.pool.budget, params.exact_rest_seconds, presolve=presolve)
            solved = restricted_problem.solve(
                self.problem, solution, last_nodes, effort, levels=level + 1, stop=self.pool.budget.should_stop
            )
            self.pool.spent += solved.deterministic_seconds
            solution = solved.solution
            if solved.is_optimal:
                break
        self._adopt(solution)

    def _adopt(self, solution: Solution) -> None:
        """Go on with a solution if it is better."""
        reached = evaluate(self.problem, solution)
        if reached > self.known:
            gained = [index for index, (new, old) in enumerate(zip(reached, self.known, strict=True)) if new != old]
            self.best, self.known = solution, reached
            self.bounds[gained[0] + 1 :] = [None] * (len(self.bounds) - gained[0] - 1)
            self.pool.learn(solution)
