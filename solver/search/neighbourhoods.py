"""
Large neighbourhood search: the exact model of a few nodes at a time, everything else as it is.

For problems whose general model is too large to be built at once. Each step releases the batch's pods on some
nodes, offers those nodes to them and to every pod without a place, and keeps what is not worse by level.
"""

import random
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.domain import Budget
from solver.model.objective import decides_pods
from solver.problem.gangs.rule import GangRule
from solver.problem.problem import Problem
from solver.search import bound, parts
from solver.search.bound import Bounds
from solver.search.crews import Crews
from solver.search.values import Values, names, values
from solver.solution import Choice, Solution

_FEWEST, _MOST = 6, 48
_STEP_SECONDS: Final = 0.1
"""Deterministic seconds of one step."""
_FIRST_SHARE: Final = 0.75
"""How often a step is for the first level that is open."""
_PACKING_SECONDS: Final = 0.5
"""Deterministic seconds while only levels that pack better are open."""


@dataclass(frozen=True, slots=True)
class Improved:
    """The best solution, the bounds that hold for it, and deterministic seconds spent."""

    solution: Solution
    bounds: Bounds
    deterministic_seconds: float


def improve(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> Improved:
    """Search until the bounds are met or the budget ends; never worse than the start."""
    search = _Search(problem, start, bounds, budget)
    while search.is_open():
        search.step()
    return Improved(search.best, search.bounds, search.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """The best solution so far and how far the next step reaches."""

    problem: Problem
    best: Solution
    bounds: Bounds
    budget: Budget
    spent: float = 0.0
    reach: int = 16
    presolve: bool = False
    known: Values = ()
    chance: random.Random = field(init=False)
    used: dict[int, list[Choice]] = field(default_factory=dict)
    crews: Crews = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.budget.seed)  # noqa: S311 - a reproducible search, not a secret
        self.crews = Crews(self.problem, self.chance)
        self._adopt(self.best)

    def is_open(self) -> bool:
        """Whether something is left to gain and to spend."""
        if self.spent >= self.budget.deterministic_seconds or self.budget.should_stop():
            return False
        is_open = [limit is None or limit > value for limit, value in zip(self.bounds.levels, self.known, strict=True)]
        decides = [decides_pods(name) for name in names(self.problem)]
        if any(each for each, matters in zip(is_open, decides, strict=True) if matters):
            return True
        return any(is_open) and self.spent < _PACKING_SECONDS

    def step(self) -> None:
        """Solve one neighbourhood."""
        self.spent += _STEP_SECONDS / 20  # so that steps without a search end too
        nodes, gangs = self._part()
        if not nodes:
            self.spent = self.budget.deterministic_seconds
            return
        effort = parts.effort(self.budget, _STEP_SECONDS, presolve=self.presolve)
        solved = parts.solve(self.problem, self.best, nodes, effort, gangs=gangs, stop=self.budget.should_stop)
        self.spent += solved.deterministic_seconds
        if solved.is_optimal:
            self.reach = min(_MOST, self.reach + 1)
        else:
            self.reach = max(_FEWEST, self.reach - 2)
            self.presolve = not self.presolve  # bin packing needs presolve, most else is faster without
        if solved.solution is not self.best and values(self.problem, solved.solution) >= self.known:
            self._adopt(solved.solution)

    def _wanting(self, waiting: list[int]) -> int:
        """Pick a class with pods without a place: mostly one that the first level still open is about."""
        level = next((i for i, limit in enumerate(self.bounds.levels) if limit is None or limit > self.known[i]), 0)
        levels = self.problem.placed_levels
        first = [each for each in waiting if level < len(levels) and levels[level].worth.get(each)]
        return self.chance.choice(first if first and self.chance.random() < _FIRST_SHARE else waiting)

    def _adopt(self, solution: Solution) -> None:
        known = values(self.problem, solution)
        gained = bool(self.known) and known > self.known
        self.best, self.known, self.used = solution, known, {}
        for choice in solution.choices:
            self.used.setdefault(choice.node, []).append(choice)
        limits = self.bounds.levels
        open_levels = [i for i, limit in enumerate(limits) if limit is None or limit > known[i]]
        if gained and open_levels and limits[open_levels[0]] is None:
            self.bounds = bound.bounds(self.problem, known, self.budget)

    def _part(self) -> tuple[list[int], list[GangRule]]:
        """Pick nodes that pods without a place could use and nodes that the batch uses, with the gangs on them."""
        fixed = {shared.node for shared in self.best.shared.values()}
        fixed.update(choice.node for choice in self.best.choices if choice.pod_class in self.crews.tied)
        gangs: list[GangRule] = []
        wanted: list[int] = []
        waiting = [*parts.waiting(self.problem, self.best.choices), *self.crews.waiting(self.used)]
        share = self.reach * 3 // 4 if waiting else 0
        if waiting:
            pod_class = self.problem.classes[self._wanting(waiting)]
            rule = self.crews.rule_of.get(pod_class.index)
            if rule is not None:
                gangs.append(rule)
                wanted = self.crews.around(rule, self.used, fixed, self.reach)
                share = len(wanted)
            else:
                fits = pod_class.verdicts.allowed & self.problem.room.fits(pod_class.requests)
                wanted = [node for node in np.flatnonzero(fits).tolist() if node not in fixed]
                self.chance.shuffle(wanted)
        used = [node for node in self.used if node not in fixed]
        picked = wanted[:share]
        picked += self.chance.sample(used, min(max(0, self.reach - len(picked)), len(used)))
        nodes = self.crews.whole(dict.fromkeys(picked), self.used, fixed, max(share, 2 * self.reach))
        return nodes, [*gangs, *self.crews.inside(nodes, self.used)]
