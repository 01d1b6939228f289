"""
Column generation: what one node of a kind can hold at once, and how often each such pattern is used.

Where many nodes are equal, the linear relaxation of the general model is weak (it gives every node one and a half
pods) and search drowns in symmetry. Here every variable is a whole pattern of one node, found by CP-SAT for the prices
that the linear master gives to pods (Dantzig and Wolfe 1960). The prices also prove a bound that is much tighter
(Lagrange), and rounding the master down leaves only about as many nodes open as there are classes of pods.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import Budget
from solver.engines import cpsat, linear
from solver.engines.cpsat import Effort
from solver.model import assignment
from solver.model.form import Expression, IntegerForm
from solver.problem.problem import Problem
from solver.search.kinds import Kind
from solver.search.values import Values
from solver.solution import Choice, Solution

_SCALE: Final = 1 << 20
"""Prices are rounded to this fraction; the bound is exact for the rounded ones."""
_PRICING_SECONDS: Final = 0.02
_OVERHEAD_SECONDS: Final = 0.002
"""What one question for a price counts as beside the engine's own measure."""
_MOST_ROUNDS: Final = 400
_PENALTY: Final = 1000
"""What an earlier level's value is worth in the master: it is to be kept, but a dive may have lost a part of it."""
_TINY: Final = 1e-7
_ROUNDING: Final = 1e-6
_UNKNOWN: Final = 1 << 100
"""A bound where the engine gave none."""
_MOST_MISSING: Final = 1 << 40


class Pattern(NamedTuple):
    """Pods of one node: how many by family, what they are worth by level, and how they are served (nodes of a kind)."""

    kind: int
    counts: tuple[tuple[int, int], ...]
    worth: Values
    choices: tuple[Choice, ...]


@dataclass(slots=True, eq=False)
class Columns:
    """Patterns found so far; `nodes` counts those to fill by kind, `pods` those to place by family."""

    problem: Problem
    kinds: list[Kind]
    nodes: list[int]
    pods: Counter[int]
    budget: Budget
    patterns: dict[tuple[int, tuple[tuple[int, int], ...], Values], Pattern] = field(default_factory=dict)
    spent: float = 0.0

    def learn(self, solution: Solution) -> Counter[Pattern]:
        """Take over what nodes hold in a solution; how often it uses each pattern."""
        kind_of = {node: index for index, kind in enumerate(self.kinds) for node in kind.nodes}
        held: defaultdict[int, list[Choice]] = defaultdict(list)
        for choice in solution.choices:
            if choice.node in kind_of:
                held[choice.node].append(choice)
        used: Counter[Pattern] = Counter()
        for node, choices in held.items():
            kind = self.kinds[kind_of[node]]
            moved = [choice._replace(node=kind.nodes[0]) for choice in choices]
            pattern, _ = self._add(kind_of[node], assignment.values_of(kind.variables, Solution(moved)))
            if pattern is not None:
                used[pattern] += 1
        return used

    def _add(self, index: int, found: list[int]) -> tuple[Pattern | None, bool]:
        """Keep what a node of a kind holds as a pattern, None where that is nothing; whether it is new."""
        variables = self.kinds[index].variables
        worth = tuple(level.expression.value(found) for level in variables.form.levels)
        counts: Counter[int] = Counter()
        for (pod_class, _), variable in variables.pods.items():
            counts[self.problem.classes[pod_class].family] += found[variable]
        key = (index, tuple(sorted((+counts).items())), worth)
        if key in self.patterns or not key[1]:
            return self.patterns.get(key), False
        choices = tuple(assignment.solution_of(variables, found).choices)
        self.patterns[key] = Pattern(index, key[1], worth, choices)
        return self.patterns[key], True

    def bound(self, level: int, known: Values, ceiling: int) -> "Master":
        """Price patterns in until none improves a level (earlier ones keep their values) or it is known to be best."""
        best, master = ceiling, Master(self, level, known)
        for _ in range(_MOST_ROUNDS):
            master = Master(self, level, known)
            if not master.solve() or self.is_spent():
                break
            bound, grew = self._price(master)
            best = min(best, bound)
            if not grew or best <= math.floor(master.value + _ROUNDING):
                break
        master.bound = best
        return master

    def is_spent(self) -> bool:
        """Whether the budget has ended."""
        return self.budget.should_stop() or self.spent >= self.budget.deterministic_seconds

    def _price(self, master: "Master") -> tuple[int, bool]:
        """Find the most valuable pattern of each kind; the bound that prices prove, and whether anything is new."""
        total = master.worth_of_limits()
        grew = False
        for index, kind in enumerate(self.kinds):
            if not self.nodes[index]:
                continue
            effort = Effort(
                seconds=self.budget.remaining_seconds(),
                deterministic_seconds=_PRICING_SECONDS,
                seed=self.budget.seed,
                workers=1,
                presolve=False,
            )
            objective = master.priced(kind)
            result = cpsat.maximize(kind.variables.form, objective, effort)
            self.spent += result.deterministic_seconds + _OVERHEAD_SECONDS
            if result.values is not None:
                grew = self._add(index, result.values)[1] or grew
            total += self.nodes[index] * max(0, _UNKNOWN if result.bound is None else result.bound)
        return total // _SCALE, grew


@dataclass(slots=True, eq=False)
class Master:
    """The linear programme over patterns for one level: how often each is used, and the prices of limits."""

    columns: Columns
    level: int
    known: Values
    bound: int = 0
    value: float = 0.0
    used: dict[Pattern, float] = field(default_factory=dict)
    families: dict[int, int] = field(default_factory=dict)
    levels: list[int] = field(default_factory=list)

    def solve(self) -> bool:
        """Solve it; False where that did not succeed."""
        form, patterns = IntegerForm(), list(self.columns.patterns.values())
        objective = Expression()
        nodes: defaultdict[int, Expression] = defaultdict(Expression)
        pods: defaultdict[int, Expression] = defaultdict(Expression)
        earlier = [Expression() for _ in range(self.level)]
        for pattern in patterns:
            variable = form.variable(0, self.columns.nodes[pattern.kind])
            nodes[pattern.kind].add(variable)
            for family, count in pattern.counts:
                pods[family].add(variable, count)
            for index, expression in enumerate(earlier):
                if pattern.worth[index]:
                    expression.add(variable, pattern.worth[index])
            if pattern.worth[self.level]:
                objective.add(variable, pattern.worth[self.level])
        for kind, total in nodes.items():
            form.require(total, "nodes of a kind", high=self.columns.nodes[kind])
        first = len(form.rows)
        for family, total in pods.items():
            form.require(total, "each pod once", high=self.columns.pods[family])
        for index, expression in enumerate(earlier):
            missing = form.variable(0, _MOST_MISSING)
            expression.add(missing)
            objective.add(missing, -(_PENALTY ** min(2, self.level - index)))
            form.require(expression, "earlier level", low=self.known[index])
        found = linear.solve(form, objective, self.columns.budget.remaining_seconds())
        if found is None:
            return False
        duals = found.duals[first:]
        self.families = {
            family: max(0, round(dual * _SCALE)) for family, dual in zip(pods, duals[: len(pods)], strict=True)
        }
        self.levels = [max(0, round(-dual * _SCALE)) for dual in duals[len(pods) :]]
        self.used = {pattern: count for pattern, count in zip(patterns, found.values, strict=False) if count > _TINY}
        self.value = sum(pattern.worth[self.level] * count for pattern, count in self.used.items())
        return True

    def worth_of_limits(self) -> int:
        """What all pods and all that earlier levels must keep are worth at the prices."""
        pods = sum(price * self.columns.pods[family] for family, price in self.families.items())
        return pods - sum(price * self.known[index] for index, price in enumerate(self.levels))

    def priced(self, kind: Kind) -> Expression:
        """What a pattern of a kind adds beyond the prices of its pods."""
        objective = Expression()
        for index, level in enumerate(kind.variables.form.levels[: self.level + 1]):
            price = _SCALE if index == self.level else self.levels[index]
            for variable, coefficient in level.expression.terms.items() if price else ():
                objective.add(variable, coefficient * price)
        for (pod_class, _), variable in kind.variables.pods.items():
            price = self.families.get(self.columns.problem.classes[pod_class].family, 0)
            if price:
                objective.add(variable, -price)
        return objective
