"""
Large neighbourhood search: the exact model of a few nodes at a time, everything else as it is.

For problems whose general model is too large to be built at once. Each step releases the batch's pods on some
nodes, offers those nodes to them and to every pod without a place, and keeps what is not worse by level.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from solver.domain import Budget
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.engines.status import EngineStatus
from solver.model import assignment, build, cells
from solver.model.form import Expression, IntegerForm
from solver.problem.layout import GLOBAL, type_at
from solver.problem.problem import PodClass, Problem
from solver.search import bound
from solver.search.bound import Bounds
from solver.search.values import Values, taken, values
from solver.solution import Choice, Solution

_FEWEST, _MOST = 6, 48
_STEP_SECONDS: Final = 0.1
"""Deterministic seconds of one step."""
_PACKING_SECONDS: Final = 0.5
"""Deterministic seconds while only levels that pack better are open."""
_MOST_WEIGHT: Final = 2**52
"""Objective values stay exact in an engine's doubles."""


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
    known: Values = ()
    chance: random.Random = field(init=False)
    used: dict[int, list[Choice]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.budget.seed)  # noqa: S311 - a reproducible search, not a secret
        self._adopt(self.best)

    def is_open(self) -> bool:
        """Whether something is left to gain and to spend."""
        if self.spent >= self.budget.deterministic_seconds or self.budget.should_stop():
            return False
        is_open = [limit is None or limit > value for limit, value in zip(self.bounds.levels, self.known, strict=True)]
        decisive = len(self.problem.tiers) + 1
        return any(is_open[:decisive]) or (any(is_open) and self.spent < _PACKING_SECONDS)

    def step(self) -> None:
        """Solve one neighbourhood."""
        self.spent += _STEP_SECONDS / 20  # so that steps without a search end too
        nodes = self._nodes()
        if not nodes:
            self.spent = self.budget.deterministic_seconds
            return
        part = self._restricted(nodes)
        variables = build.build(part, cells.single(part, nodes))
        hint = assignment.values_of(variables, self.best)
        effort = Effort(
            seconds=self.budget.remaining_seconds(),
            deterministic_seconds=_STEP_SECONDS,
            seed=self.budget.seed,
            workers=self.budget.workers,
            presolve=False,
        )
        result = cpsat.maximize(variables.form, _weighted(variables.form), effort, hint=hint)
        self.spent += result.deterministic_seconds
        if result.status is EngineStatus.OPTIMAL:
            self.reach = min(_MOST, self.reach + 1)
        else:
            self.reach = max(_FEWEST, self.reach - 2)
        if result.values is not None and result.values != hint:
            self._consider(nodes, assignment.solution_of(variables, result.values))

    def _consider(self, nodes: list[int], found: Solution) -> None:
        inside = set(nodes)
        kept = [choice for choice in self.best.choices if choice.node not in inside]
        candidate = Solution(kept + found.choices, self.best.shared)
        if values(self.problem, candidate) >= self.known:
            self._adopt(candidate)

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

    def _nodes(self) -> list[int]:
        """Pick nodes that a pod without a place could use, and nodes that the batch uses."""
        fixed = {shared.node for shared in self.best.shared.values()}
        fixed |= {node for node, choices in self.used.items() if any(self._is_tied(choice) for choice in choices)}
        wanted: list[int] = []
        waiting = self._waiting()
        if waiting:
            pod_class = self.problem.classes[self.chance.choice(list(waiting))]
            fits = pod_class.verdicts.allowed & self.problem.room.fits(pod_class.requests)
            wanted = [node for node in np.flatnonzero(fits).tolist() if node not in fixed]
        used = [node for node in self.used if node not in fixed]
        share = self.reach * 3 // 4 if waiting else 0
        picked = self.chance.sample(wanted, min(share, len(wanted)))
        picked += self.chance.sample(used, min(self.reach - len(picked), len(used)))
        return sorted(dict.fromkeys(picked))

    def _waiting(self) -> Counter[int]:
        """Pods without a place by class; all classes of a family stand for the same pods."""
        placed = self._by_family(self.best.choices)
        return Counter(
            {
                each.index: each.size - placed[each.family]
                for each in self.problem.classes
                if each.size > placed[each.family] and not self.problem.is_tied(each)
            }
        )

    def _by_family(self, choices: Iterable[Choice]) -> Counter[int]:
        return Counter(self.problem.classes[choice.pod_class].family for choice in choices)

    def _is_tied(self, choice: Choice) -> bool:
        return self.problem.is_tied(self.problem.classes[choice.pod_class])

    def _restricted(self, nodes: list[int]) -> Problem:
        """The problem of some nodes: pods without a place and those released compete for them."""
        inside = set(nodes)
        released = self._by_family(choice for choice in self.best.choices if choice.node in inside)
        waiting = self._waiting()
        classes = [_limited(each, released[each.family] + waiting[each.index]) for each in self.problem.classes]
        outside = [choice for choice in self.best.choices if choice.node not in inside]
        return replace(self.problem, classes=classes, shared=[], limits=(), wide_state=self._wide_left(outside))

    def _wide_left(self, outside: list[Choice]) -> tuple[int, ...]:
        """What pods elsewhere, and shared claims, leave of the cluster-wide budgets."""
        problem, left = self.problem, list(self.problem.wide_state)
        if not left:
            return ()
        opened: set[int] = set()
        for _, group, line, each, count in taken(problem, Solution(outside, self.best.shared)):
            device = type_at(problem.layout, group, each)
            for budget, amount in device.takes[line.demand]:
                if budget >= GLOBAL:
                    left[budget - GLOBAL] -= amount * count
            if device.fresh >= GLOBAL and device.fresh not in opened:
                opened.add(device.fresh)
                left[device.fresh - GLOBAL] = 0
        return tuple(left)


def _limited(pod_class: PodClass, size: int) -> PodClass:
    """The same class with fewer members."""
    return replace(pod_class, members=pod_class.members[:size], sources=pod_class.sources[:size])


def _weighted(form: IntegerForm) -> Expression:
    """Fold the levels into one expression in which no later level outweighs an earlier one."""
    weights: list[int] = []
    total = 0
    for level in reversed(form.levels):
        spread = sum(abs(each) * form.upper[variable] for variable, each in level.expression.terms.items())
        weight = total + 1
        if (total + spread * weight) >= _MOST_WEIGHT:
            weights = [0] * len(weights)
            total, weight = 0, 1
        weights.append(weight)
        total += spread * weight
    folded = Expression()
    for level, weight in zip(form.levels, reversed(weights), strict=True):
        for variable, coefficient in level.expression.terms.items() if weight else ():
            folded.add(variable, coefficient * weight)
    return folded
