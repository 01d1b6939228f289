"""
Large neighbourhood search (LNS): the exact model of a few nodes at a time, everything else as it is.

For problems whose general model is too large. A step destroys the placements on some nodes, offers those nodes to their
pods and to all pods without a place, and repairs with CP-SAT; the result stays if it is not worse by level. The
neighbourhood grows while it is solved to optimality and shrinks where it is not.

How gangs take part says `gang_neighbourhoods`. (Shaw 1998: Using constraint programming and local search methods to
solve vehicle routing problems.)
"""

import random
from dataclasses import dataclass, field

import numpy as np

from solver.domain import Budget
from solver.engines.cpsat import Effort
from solver.model import objective
from solver.model.objective import Values, evaluate
from solver.problem.problem import Problem
from solver.rules.forms.gang_rules import GangRule
from solver.search import bound, restricted_problem
from solver.search.bound import BoundedSolution, Bounds
from solver.search.gang_neighbourhoods import GangNeighbourhoods
from solver.solution import Choice, Solution


def improve(problem: Problem, start: Solution, bounds: Bounds, budget: Budget) -> BoundedSolution:
    """Search until the bounds are met or the budget ends; never worse than the start."""
    search = _Search(problem, start, bounds, budget)
    while search.is_open() and search.step():
        pass
    return BoundedSolution(search.best, search.bounds, search.spent)


@dataclass(slots=True, eq=False)
class _Search:
    """The best solution so far; `node_limit` is the size of the next neighbourhood."""

    problem: Problem
    best: Solution
    bounds: Bounds
    budget: Budget
    spent: float = 0.0
    node_limit: int = field(init=False)
    presolve: bool = False
    known: Values = ()
    rng: random.Random = field(init=False)
    used: dict[int, list[Choice]] = field(default_factory=dict)
    gang_moves: GangNeighbourhoods = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.budget.seed)  # noqa: S311 - a reproducible search, not a secret
        self.gang_moves = GangNeighbourhoods(self.problem, self.rng)
        self.node_limit = self.problem.params.lns_first_nodes
        self._adopt(self.best)

    def is_open(self) -> bool:
        """Whether something is left to gain and to spend."""
        if self.spent >= self.budget.deterministic_seconds or self.budget.should_stop():
            return False
        is_open = [limit is None or limit > value for limit, value in zip(self.bounds.levels, self.known, strict=True)]
        if any(
            each
            for each, level in zip(is_open, objective.objective_levels(self.problem), strict=True)
            if level.decides_pods
        ):
            return True
        return any(is_open) and self.spent < self.problem.params.lns_packing_seconds

    def step(self) -> bool:
        """Solve one neighbourhood; return whether there was one."""
        params = self.problem.params
        self.spent += params.lns_step_seconds * params.lns_overhead_share  # so that steps without a search end too
        nodes, gangs = self._pick_neighbourhood()
        if not nodes:
            return False
        effort = Effort.within(self.budget, params.lns_step_seconds, presolve=self.presolve)
        solved = restricted_problem.solve(
            self.problem, self.best, nodes, effort, gangs=gangs, stop=self.budget.should_stop
        )
        self.spent += solved.deterministic_seconds
        if solved.is_optimal:
            self.node_limit = min(params.lns_most_nodes, self.node_limit + 1)
        else:
            self.node_limit = max(params.lns_fewest_nodes, self.node_limit - 2)
            self.presolve = not self.presolve  # bin packing needs presolve, most else is faster without
        if solved.solution is not self.best and evaluate(self.problem, solved.solution) >= self.known:
            self._adopt(solved.solution)
        return True

    def _pick_waiting_class(self, waiting: list[int]) -> int:
        """Pick a class with pods without a place: mostly one that the first level still open is about."""
        level = next((i for i, limit in enumerate(self.bounds.levels) if limit is None or limit > self.known[i]), 0)
        levels = self.problem.placed_levels
        first = [each for each in waiting if level < len(levels) and levels[level].worth.get(each)]
        is_first = bool(first) and self.rng.random() < self.problem.params.lns_first_level_share
        return self.rng.choice(first if is_first else waiting)

    def _adopt(self, solution: Solution) -> None:
        known = evaluate(self.problem, solution)
        gained = bool(self.known) and known > self.known
        self.best, self.known, self.used = solution, known, {}
        for choice in solution.choices:
            self.used.setdefault(choice.node, []).append(choice)
        limits = self.bounds.levels
        open_levels = [i for i, limit in enumerate(limits) if limit is None or limit > known[i]]
        if gained and open_levels and limits[open_levels[0]] is None:
            # Both hold: with better values of earlier levels a bound of a later one can only be lower.
            self.bounds = self.bounds.tightened(bound.bounds(self.problem, known, self.budget))

    def _pick_neighbourhood(self) -> tuple[list[int], list[GangRule]]:
        """Pick nodes that waiting pods could use and nodes that the batch uses, with the gangs on them."""
        fixed = {shared.node for shared in self.best.shared.values()}
        fixed.update(choice.node for choice in self.best.choices if choice.pod_class in self.gang_moves.fixed_classes)
        gangs: list[GangRule] = []
        wanted: list[int] = []
        waiting = [
            *restricted_problem.waiting(self.problem, self.best.choices),
            *self.gang_moves.waiting(self.used),
        ]
        share = int(self.node_limit * self.problem.params.lns_waiting_share) if waiting else 0
        if waiting:
            pod_class = self.problem.classes[self._pick_waiting_class(waiting)]
            rule = self.gang_moves.rule_of.get(pod_class.index)
            if rule is not None:
                gangs.append(rule)
                wanted = self.gang_moves.around(rule, self.used, fixed, self.node_limit)
                share = len(wanted)
            else:
                fits = pod_class.verdicts.allowed & self.problem.available.room.fits(pod_class.requests)
                wanted = [node for node in np.flatnonzero(fits).tolist() if node not in fixed]
                self.rng.shuffle(wanted)
        used = [node for node in self.used if node not in fixed]
        picked = wanted[:share]
        picked += self.rng.sample(used, min(max(0, self.node_limit - len(picked)), len(used)))
        nodes = self.gang_moves.whole(dict.fromkeys(picked), self.used, fixed, max(share, 2 * self.node_limit))
        return nodes, [*gangs, *self.gang_moves.inside(nodes, self.used)]
