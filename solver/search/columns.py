"""The stage of patterns: bound level after level over kinds of nodes, and dive where a level is open."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from solver.domain import Budget
from solver.model.objective import decides_pods
from solver.problem.problem import Problem
from solver.search import allowance, dive, kinds, mix, neighbourhoods, parts
from solver.search.bound import Bounds
from solver.search.dive import Dived
from solver.search.exact import levels_from_bounds
from solver.search.patterns import Columns, Master
from solver.search.values import Values, most, names, values
from solver.solution import Solution

_MOST_KINDS: Final = 64
_REST_SECONDS: Final = 0.15
"""Deterministic seconds in which the last nodes of a dive are solved exactly, without presolve and with it."""
_JOINT: Final = frozenset({"opened-groups"})
"""Levels that are no sum over nodes: neither they nor what comes after them can be bounded by patterns of nodes."""
_DONE: Final = -(1 << 60)
"""A bound that every value meets."""
_MOST_REST: Final = 24
_REPAIR_SECONDS: Final = 0.4


@dataclass(frozen=True, slots=True)
class Improved:
    """The best solution, the bounds that hold for it, and deterministic seconds spent."""

    solution: Solution
    bounds: Bounds
    deterministic_seconds: float


def improve(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> Improved | None:
    """Bound and improve until a level stays open; None where nodes are of too many kinds or hang together."""
    taste = problem.tastes.preferences
    if problem.wide_state or taste.crowds or taste.companies:
        return None
    fixed = parts.fixed_nodes(problem, start)
    nodes = [node for node in range(problem.node_count) if node not in fixed]
    kept = Solution([choice for choice in start.choices if choice.node in fixed], start.shared)
    part = parts.restricted(problem, kept, nodes)
    if names(part) != names(problem):  # a level about rules among pods: patterns of single nodes do not see it
        return None
    found = kinds.kinds(part, nodes, _MOST_KINDS, budget.should_stop)
    if not found:
        return None
    pods = Counter({family[0].family: family[0].size for family in part.families})
    columns = Columns(part, found, [len(kind.nodes) for kind in found], pods, budget)
    columns.learn(start)
    known = values(problem, start)
    packs = allowance.only_packs(problem, levels_from_bounds(problem, known, bounds))
    search = _Search(problem, columns, kept, start, known, list(bounds.levels), packs)
    is_whole = not any(problem.is_tied(each) for each in problem.classes)
    while not columns.is_spent() and search.level(is_whole=is_whole):
        pass
    return Improved(search.best, Bounds(tuple(search.limits), bounds.size), columns.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """The best solution so far and what bounds it."""

    problem: Problem
    columns: Columns
    kept: Solution
    best: Solution
    known: Values
    limits: list[int | None]
    packs: bool = False

    def level(self, *, is_whole: bool) -> bool:
        """Work on the first level that is open; whether it was closed and another one is open."""
        level = self._first_open()
        if level is None:
            return False
        if not decides_pods(names(self.problem)[level]):
            self._only_pack()
        ceiling = self.limits[level]
        trivial = most(self.problem, names(self.problem)[level])
        kept = values(self.problem, self.kept)
        known = tuple(value - fixed for value, fixed in zip(self.known, kept, strict=True))
        master = self.columns.bound(level, known, (trivial if ceiling is None else ceiling) - kept[level])
        bound = master.bound + kept[level]
        if is_whole:
            self.limits[level] = bound
        if bound > self.known[level] and master.used:
            self._mix(master)
        if bound > self.known[level] and master.used:
            self._dive(level, dive.dive(self.columns, master, self.kept))
        return is_whole and self.known[level] >= bound

    def _first_open(self) -> int | None:
        """Give the first open level, unless one that patterns cannot add up comes before it."""
        for index, name in enumerate(names(self.problem)):
            limit = self.limits[index]
            if name in _JOINT:
                return None
            if limit is None or limit > self.known[index]:
                return index
        return None

    def _only_pack(self) -> None:
        """From now on spend half of what packing may cost at most: the rest of it is for the exact model."""
        columns = self.columns
        if not self.packs:
            self.packs = True
            left = replace(columns.budget, deterministic_seconds=columns.budget.deterministic_seconds - columns.spent)
            rest = allowance.for_packing(self.problem, left)
            seconds = columns.spent + rest.deterministic_seconds / 2
            columns.budget = replace(rest, deterministic_seconds=seconds)

    def _mix(self, master: Master) -> None:
        """Take the best mix of the patterns known, if it is better."""
        used = mix.mixed(self.columns, master, self.columns.learn(self.best), master.bound)
        if used:
            self._adopt(dive.laid_out(self.columns, master.known, used, self.kept))

    def _dive(self, level: int, found: Dived) -> None:
        """Solve the last nodes of a dive exactly and keep what is better."""
        solution, few = found
        for presolve in (False, True):
            if not few or len(few) > _MOST_REST or self.columns.is_spent():
                break
            effort = parts.effort(self.columns.budget, _REST_SECONDS, presolve=presolve)
            solved = parts.solve(
                self.problem, solution, few, effort, levels=level + 1, stop=self.columns.budget.should_stop
            )
            self.columns.spent += solved.deterministic_seconds
            solution = solved.solution
            if solved.is_optimal:
                break
        self._adopt(self._repaired(level, solution))

    def _adopt(self, solution: Solution) -> None:
        """Go on with a solution if it is better."""
        reached = values(self.problem, solution)
        if reached > self.known:
            gained = [index for index, (new, old) in enumerate(zip(reached, self.known, strict=True)) if new != old]
            self.best, self.known = solution, reached
            self.limits[gained[0] + 1 :] = [None] * (len(self.limits) - gained[0] - 1)
            self.columns.learn(solution)

    def _repaired(self, level: int, solution: Solution) -> Solution:
        """Bring back what rounding lost, a few nodes at a time: earlier levels count more than the one dived for."""
        budget = self.columns.budget
        seconds = min(self.columns.spent + _REPAIR_SECONDS, budget.deterministic_seconds) - self.columns.spent
        later = len(self.limits) - level - 1
        limits = Bounds((*self.limits[: level + 1], *(_DONE,) * later), (0, 0))
        found = neighbourhoods.improve(self.problem, solution, limits, replace(budget, deterministic_seconds=seconds))
        self.columns.spent += found.deterministic_seconds
        return found.solution
