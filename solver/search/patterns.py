"""Column generation: what one node of a kind can hold at once, and how often each such pattern is used.

Where many nodes are equal, the linear relaxation of the general model is weak (it gives every node one and a half
pods) and search drowns in symmetry. Here every variable is a whole pattern of one node, found by CP-SAT for the prices
that the linear master gives to pods (Dantzig and Wolfe 1960). The prices also prove a bound that is much tighter
(Lagrange), and rounding the master down leaves only about as many nodes open as there are classes of pods.

Kinds of nodes: which nodes are equal in everything that a batch can see of them, room included.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from solver.domain import Budget
from solver.engines.cpsat import Effort, EngineStatus, Questions
from solver.engines.linear import Programme
from solver.model import assignment, build, cells
from solver.model.form import Expression, OutOfTimeError
from solver.model.objective import Values
from solver.model.variables import Variables
from solver.problem.node_arrays import PODS
from solver.problem.problem import Problem
from solver.search.bound import ContradictionError
from solver.solution import Choice, Solution

_Key = tuple[object, ...]


@dataclass(slots=True, eq=False)
class NodeClass:
    """Equal nodes, the model of one of them, and the engine that is asked for what it can hold."""

    nodes: list[int]
    variables: Variables
    questions: Questions = field(init=False)

    def __post_init__(self) -> None:
        self.questions = Questions(self.variables.form)

    def others(self) -> int:
        """How many variables of the model are not about how many pods of a class there are."""
        return len(self.variables.form.lower) - len(self.variables.pods)


def kinds(
    problem: Problem, nodes: list[int], most: int, stop: Callable[[], bool] = lambda: False
) -> list[NodeClass] | None:
    """Sort nodes by kind; None where there are more kinds than `most`, or `stop` says that the time is up."""
    wanted = [each for each in problem.classes if each.size]
    if not wanted:
        return []
    masks = np.array([each.verdicts.allowed for each in wanted], dtype=np.bool_).reshape(len(wanted), -1)
    resources = [PODS, *sorted({resource for each in wanted for resource, amount in each.requests if amount > 0})]
    room = np.stack([problem.room.of(resource) for resource in resources])
    preferred = list(problem.tastes.preferences.of_class.values())
    limits: dict[_Key, list[int]] = {}
    found: defaultdict[_Key, list[int]] = defaultdict(list)
    for node in nodes:
        allowed = masks[:, node]
        if not allowed.any() or room[0, node] <= 0:
            continue
        costs = tuple(int(column[node]) for column in preferred)
        look = (problem.layout.group_of[node], problem.states[node], problem.is_whole[node], allowed.tobytes(), costs)
        if look not in limits:
            if stop():
                return None
            limits[look] = _most_taken(problem, node, resources)
        if not limits[look][0]:
            continue  # its devices serve none of them
        free = tuple(min(int(have), limit) for have, limit in zip(room[:, node], limits[look], strict=True))
        found[look, free].append(node)
        if len(found) > most:
            return None
    try:
        made = [
            NodeClass(members, build.build(problem, cells.single(problem, members[:1]), stop=stop))
            for members in found.values()
        ]
    except OutOfTimeError:
        return None
    return [kind for kind in made if kind.variables.pods]


def _most_taken(problem: Problem, node: int, resources: list[str]) -> list[int]:
    """Amounts that pods on a node could take at most if it had no end of them: what is free beyond is no difference."""
    taken = dict.fromkeys(resources, 0)
    for each in problem.classes:
        if not each.size or not each.verdicts.allowed[node]:
            continue
        most = build.most_served(problem, each, node)
        taken[PODS] += most
        for resource, amount in each.requests:
            if amount > 0:
                taken[resource] += most * amount
    return [taken[resource] for resource in resources]


_TINY: Final = 1e-7
_ROUNDING: Final = 1e-6
_UNKNOWN: Final = 1 << 100
"""A bound where the engine gave none."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Pods of one node of a kind: how many by family, what they are worth by level, and all values of its model."""

    kind: int
    counts: tuple[tuple[int, int], ...]
    worth: Values
    found: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Columns:
    """Patterns found so far; `nodes` counts those to fill by kind, `pods` those to place by family."""

    problem: Problem
    kinds: list[NodeClass]
    nodes: list[int]
    pods: Counter[int]
    budget: Budget
    patterns: dict[tuple[int, tuple[tuple[int, int], ...], Values], Pattern] = field(default_factory=dict)
    decoded: dict[Pattern, tuple[Choice, ...]] = field(default_factory=dict)
    spent: float = 0.0

    def choices(self, pattern: Pattern) -> tuple[Choice, ...]:
        """Say how the pods of a pattern are served, on the first node of its kind; worked out when it is asked for."""
        if pattern not in self.decoded:
            found = assignment.solution_of(self.kinds[pattern.kind].variables, list(pattern.found))
            self.decoded[pattern] = tuple(found.choices)
        return self.decoded[pattern]

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
        self.patterns[key] = Pattern(index, key[1], worth, tuple(found))
        return self.patterns[key], True

    def bound(self, level: int, known: Values, ceiling: int) -> "Master":
        """Price patterns in until none improves a level (earlier ones keep their values) or it is known to be best."""
        best, master = ceiling, Master(self, level, known)
        for _ in range(self.problem.params.pricing_rounds):
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
        total, params = master.worth_of_limits(), self.problem.params
        grew = False
        for index, kind in enumerate(self.kinds):
            if not self.nodes[index]:
                continue
            effort = Effort(
                seconds=self.budget.remaining_seconds(),
                deterministic_seconds=params.pricing_seconds,
                seed=self.budget.seed,
                workers=1,
                presolve=False,
            )
            result = kind.questions.maximize(master.priced(kind), effort, upper=self._left(kind))
            self.spent += result.deterministic_seconds + params.pricing_overhead_seconds
            if result.status is EngineStatus.INFEASIBLE:
                raise ContradictionError("pricing finds no column, not even the one that holds nothing")
            if result.values is not None:
                grew = self._add(index, result.values)[1] or grew
            total += self.nodes[index] * max(0, _UNKNOWN if result.bound is None else result.bound)
        return total // params.price_scale, grew

    def _left(self, kind: NodeClass) -> dict[int, int]:
        """No pattern holds more pods than are left."""
        classes = self.problem.classes
        pods = kind.variables.pods.items()
        return {variable: self.pods[classes[pod_class].family] for (pod_class, _), variable in pods}


@dataclass(slots=True, eq=False)
class Master:
    """
    The linear programme over patterns for one level: how often each is used, and the prices of limits.

    `value` is what the level is worth, `score` the same less the penalty for what earlier levels miss. Patterns that
    need more pods than are left do not count.
    """

    columns: Columns
    level: int
    known: Values
    bound: int = 0
    value: float = 0.0
    score: float = 0.0
    used: dict[Pattern, float] = field(default_factory=dict)
    families: dict[int, int] = field(default_factory=dict)
    levels: list[int] = field(default_factory=list)
    taken: list[Pattern] = field(default_factory=list)
    seen: int = 0
    programme: Programme = field(default_factory=Programme)
    rows: "_Rows" = field(init=False)

    def __post_init__(self) -> None:
        programme = self.programme
        nodes = [programme.row(high=count) for count in self.columns.nodes]
        pods = {family: programme.row(high=count) for family, count in self.columns.pods.items() if count}
        earlier = [programme.row(low=known) for known in self.known[: self.level]]
        self.rows = _Rows(nodes, pods, earlier)
        penalty = self.columns.problem.params.earlier_level_penalty
        for index, row in enumerate(earlier):
            programme.column({row: 1}, worth=-(penalty ** min(2, self.level - index)))

    def solve(self) -> bool:
        """Solve it with all patterns known by now; False where that did not succeed."""
        for pattern in islice(self.columns.patterns.values(), self.seen, None):
            self._take(pattern)
        self.seen = len(self.columns.patterns)
        found = self.programme.solve(self.columns.budget.remaining_seconds())
        if found is None:
            return False
        scale = self.columns.problem.params.price_scale
        self.families = {family: max(0, round(found.duals[row] * scale)) for family, row in self.rows.pods.items()}
        self.levels = [max(0, round(-found.duals[row] * scale)) for row in self.rows.earlier]
        amounts = zip(self.taken, found.used[self.level :], strict=True)
        self.used = {pattern: amount for pattern, amount in amounts if amount > _TINY}
        self.value = sum(pattern.worth[self.level] * amount for pattern, amount in self.used.items())
        self.score = found.value
        return True

    def _take(self, pattern: Pattern) -> None:
        """Let a pattern take part, if there are nodes and pods for it."""
        nodes, pods = self.columns.nodes[pattern.kind], self.columns.pods
        if not nodes or any(count > pods[family] for family, count in pattern.counts):
            return
        amounts = {self.rows.nodes[pattern.kind]: 1}
        amounts |= {self.rows.pods[family]: count for family, count in pattern.counts}
        amounts |= {row: pattern.worth[index] for index, row in enumerate(self.rows.earlier) if pattern.worth[index]}
        self.programme.column(amounts, worth=pattern.worth[self.level], most=nodes)
        self.taken.append(pattern)

    def worth_of_limits(self) -> int:
        """What all pods and all that earlier levels must keep are worth at the prices."""
        pods = sum(price * self.columns.pods[family] for family, price in self.families.items())
        return pods - sum(price * self.known[index] for index, price in enumerate(self.levels))

    def priced(self, kind: NodeClass) -> Expression:
        """What a pattern of a kind adds beyond the prices of its pods."""
        objective = Expression()
        for index, level in enumerate(kind.variables.form.levels[: self.level + 1]):
            price = self.columns.problem.params.price_scale if index == self.level else self.levels[index]
            for variable, coefficient in level.expression.terms.items() if price else ():
                objective.add(variable, coefficient * price)
        for (pod_class, _), variable in kind.variables.pods.items():
            price = self.families.get(self.columns.problem.classes[pod_class].family, 0)
            if price:
                objective.add(variable, -price)
        return objective


class _Rows(NamedTuple):
    """Rows of a master: by kind, by family, and by earlier level."""

    nodes: list[int]
    pods: dict[int, int]
    earlier: list[int]
