"""
Columns: what one node of a node class can hold at once, and the master that says how often each column is used.

Where many nodes are equal, the linear relaxation of the general model is weak: it gives every node one and a half pods.
Search suffers from symmetry. Here every variable is a whole column of one node, which CP-SAT finds for the prices that
the linear master gives to pods (Dantzig and Wolfe 1960). The prices also prove a bound (Lagrange): for every node class
its nodes times the best column at these prices.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

from solver.domain import Budget
from solver.engines.cpsat import Effort, EngineStatus, ReusableModel
from solver.engines.linear import TOLERANCE, LinearProgram
from solver.model import assignment, build, cells
from solver.model.form import Expression, OutOfTimeError
from solver.model.objective import Values
from solver.model.variables import Variables
from solver.problem.problem import Problem
from solver.search.bound import ContradictionError
from solver.search.node_symmetry import equal_nodes
from solver.solution import Choice, Solution


@dataclass(slots=True, eq=False)
class NodeClass:
    """Equal nodes, and the model of one of them; `pricing_model` finds the best column for given prices."""

    nodes: list[int]
    variables: Variables
    pricing_model: ReusableModel = field(init=False)

    def __post_init__(self) -> None:
        self.pricing_model = ReusableModel(self.variables.form)

    def other_variables(self) -> int:
        """Count the variables of the model that do not count pods."""
        return len(self.variables.form.lower) - len(self.variables.pods)


def node_classes(
    problem: Problem, nodes: list[int], most: int, stop: Callable[[], bool] = lambda: False
) -> list[NodeClass] | None:
    """Sort nodes by node class; None where there are more of them than `most`, or `stop` says that the time is up."""
    found = equal_nodes(problem, nodes, most, stop)
    if found is None:
        return None
    try:
        made = [
            NodeClass(members, build.build(problem, cells.single(problem, members[:1]), stop=stop)) for members in found
        ]
    except OutOfTimeError:
        return None
    return [node_class for node_class in made if node_class.variables.pods]


_TINY: Final = 1e-7
_UNKNOWN: Final = 1 << 100
"""A bound where the engine gave none."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Pods that one node of a class holds: how many by family, their worth by level, and all values of its model."""

    node_class: int
    counts: tuple[tuple[int, int], ...]
    worth: Values
    values: tuple[int, ...]


@dataclass(slots=True, eq=False)
class ColumnPool:
    """
    Columns found so far; `nodes` counts those to fill by node class, `pods` those to place by family.

    `limits` is what limits of added nodes leave (`NodePrices.limits`).
    """

    problem: Problem
    node_classes: list[NodeClass]
    nodes: list[int]
    pods: Counter[int]
    budget: Budget
    limits: list[int] = field(default_factory=list)
    columns: dict[tuple[int, tuple[tuple[int, int], ...], Values], Column] = field(default_factory=dict)
    decoded: dict[Column, tuple[Choice, ...]] = field(default_factory=dict)
    spent: float = 0.0

    def sizes(self, node_class: int) -> list[int]:
        """Return what a node of a node class has of each limit of added nodes."""
        node = self.node_classes[node_class].nodes[0]
        return [int(limit.size_of[node]) for limit in self.problem.costs.node_limits]

    def choices(self, column: Column) -> tuple[Choice, ...]:
        """Say how the pods of a column are served, on the first node of its class; worked out when it is asked for."""
        if column not in self.decoded:
            found = assignment.solution_of(self.node_classes[column.node_class].variables, list(column.values))
            self.decoded[column] = tuple(found.choices)
        return self.decoded[column]

    def learn(self, solution: Solution) -> Counter[Column]:
        """Take over what nodes hold in a solution; how often it uses each column."""
        kind_of = {node: index for index, node_class in enumerate(self.node_classes) for node in node_class.nodes}
        held: defaultdict[int, list[Choice]] = defaultdict(list)
        for choice in solution.choices:
            if choice.node in kind_of:
                held[choice.node].append(choice)
        used: Counter[Column] = Counter()
        for node, choices in held.items():
            node_class = self.node_classes[kind_of[node]]
            moved = [choice._replace(node=node_class.nodes[0]) for choice in choices]
            column, _ = self._add(kind_of[node], assignment.values_of(node_class.variables, Solution(moved)))
            if column is not None:
                used[column] += 1
        return used

    def _add(self, index: int, found: list[int]) -> tuple[Column | None, bool]:
        """Keep what a node of a node class holds as a column, None where that is nothing; whether it is new."""
        variables = self.node_classes[index].variables
        worth = tuple(level.expression.value(found) for level in variables.form.levels)
        counts: Counter[int] = Counter()
        for (pod_class, _), variable in variables.pods.items():
            counts[self.problem.classes[pod_class].family] += found[variable]
        key = (index, tuple(sorted((+counts).items())), worth)
        if key in self.columns or not key[1]:
            return self.columns.get(key), False
        self.columns[key] = Column(index, key[1], worth, tuple(found))
        return self.columns[key], True

    def bound(self, level: int, known: Values, ceiling: int) -> "Master":
        """Price columns in until none improves a level (earlier ones keep their values) or it is known to be best."""
        best, master = ceiling, Master(self, level, known)
        for _ in range(self.problem.params.pricing_rounds):
            if not master.solve() or self.is_spent():
                break
            bound, grew = self._price(master)
            best = min(best, bound)
            if not grew or best <= math.floor(master.value + TOLERANCE):
                break
        master.bound = best
        return master

    def is_spent(self) -> bool:
        """Whether the budget has ended."""
        return self.budget.should_stop() or self.spent >= self.budget.deterministic_seconds

    def _price(self, master: "Master") -> tuple[int, bool]:
        """Find the best column of each node class; return the bound that prices prove, and whether a column is new."""
        total, params = master.lagrangian_constant(), self.problem.params
        classes, grew = self.problem.classes, False
        for index, node_class in enumerate(self.node_classes):
            if not self.nodes[index]:
                continue
            effort = replace(Effort.within(self.budget, params.pricing_seconds, presolve=False), workers=1)
            pods = node_class.variables.pods.items()
            left = {variable: self.pods[classes[pod_class].family] for (pod_class, _), variable in pods}
            result = node_class.pricing_model.maximize(master.reduced_cost(index), effort, upper=left)
            self.spent += result.deterministic_seconds + params.pricing_overhead_seconds
            if result.status is EngineStatus.INFEASIBLE:
                raise ContradictionError("pricing finds no column, not even the one that holds nothing")
            if result.values is not None:
                grew = self._add(index, result.values)[1] or grew
            total += self.nodes[index] * max(0, _UNKNOWN if result.bound is None else result.bound)
        return total // params.price_scale, grew


@dataclass(slots=True, eq=False)
class Master:
    """
    The linear programme over columns for one level: how often each is used, and the prices (dual values) of the rows.

    `value` is what the level is worth, `score` the same less the penalty for what earlier levels miss. Columns that
    need more pods than are left do not count. `pod_prices` are by family, `level_prices` by earlier level; both are
    integers, scaled by `SearchParams.price_scale`. `limit_prices` are those of limits of added nodes, by what a node
    has of them; they are neither.
    """

    columns: ColumnPool
    level: int
    known: Values
    bound: int = 0
    value: float = 0.0
    score: float = 0.0
    used: dict[Column, float] = field(default_factory=dict)
    pod_prices: dict[int, int] = field(default_factory=dict)
    level_prices: list[int] = field(default_factory=list)
    limit_prices: list[float] = field(default_factory=list)
    taken: list[Column] = field(default_factory=list)
    seen: int = 0
    programme: LinearProgram = field(default_factory=LinearProgram)
    rows: "_Rows" = field(init=False)

    def __post_init__(self) -> None:
        programme = self.programme
        nodes = [programme.row(high=count) for count in self.columns.nodes]
        pods = {family: programme.row(high=count) for family, count in self.columns.pods.items() if count}
        earlier = [programme.row(low=known) for known in self.known[: self.level]]
        limits = [programme.row(high=left) for left in self.columns.limits]
        self.rows = _Rows(nodes, pods, earlier, limits)
        penalty = self.columns.problem.params.earlier_level_penalty
        for index, row in enumerate(earlier):
            programme.column({row: 1}, worth=-(penalty ** min(2, self.level - index)))

    def solve(self) -> bool:
        """Solve it with all columns known by now; False where that did not succeed."""
        for column in islice(self.columns.columns.values(), self.seen, None):
            self._take(column)
        self.seen = len(self.columns.columns)
        found = self.programme.solve(self.columns.budget.remaining_seconds())
        if found is None:
            return False
        scale = self.columns.problem.params.price_scale
        self.pod_prices = {family: max(0, round(found.duals[row] * scale)) for family, row in self.rows.pods.items()}
        self.level_prices = [max(0, round(-found.duals[row] * scale)) for row in self.rows.earlier]
        self.limit_prices = [max(0.0, found.duals[row]) for row in self.rows.limits]
        amounts = zip(self.taken, found.used[self.level :], strict=True)
        self.used = {column: amount for column, amount in amounts if amount > _TINY}
        self.value = sum(column.worth[self.level] * amount for column, amount in self.used.items())
        self.score = found.value
        return True

    def _take(self, column: Column) -> None:
        """Let a column take part, if there are nodes and pods for it, and limits leave such a node."""
        nodes, pods = self.columns.nodes[column.node_class], self.columns.pods
        sizes = self.columns.sizes(column.node_class)
        if not nodes or any(count > pods[family] for family, count in column.counts):
            return
        if any(size > left for size, left in zip(sizes, self.columns.limits, strict=True)):
            return
        amounts = {self.rows.nodes[column.node_class]: 1}
        amounts |= {self.rows.pods[family]: count for family, count in column.counts}
        amounts |= {row: column.worth[index] for index, row in enumerate(self.rows.earlier) if column.worth[index]}
        amounts |= {row: size for row, size in zip(self.rows.limits, sizes, strict=True) if size}
        self.programme.column(amounts, worth=column.worth[self.level], most=nodes)
        self.taken.append(column)

    def lagrangian_constant(self) -> int:
        """Return the constant of the Lagrangian bound: pods, earlier levels and limits, at their prices."""
        pods = sum(price * self.columns.pods[family] for family, price in self.pod_prices.items())
        levels = sum(price * self.known[index] for index, price in enumerate(self.level_prices))
        limits = self._limit_price(self.columns.limits)
        return pods - levels + (math.ceil(limits) + 1 if limits else 0)  # 1: more than floats are wrong by

    def _limit_price(self, amounts: list[int]) -> float:
        """Return the price of amounts of each limit, scaled."""
        scale = self.columns.problem.params.price_scale
        return sum(price * amount for price, amount in zip(self.limit_prices, amounts, strict=True)) * scale

    def reduced_cost(self, node_class: int) -> Expression:
        """
        Return the reduced cost of a column of a node class, to be maximised.

        It is its worth less the prices of its pods, and, where the node is an added one, of what it has of limits.
        """
        objective, variables = Expression(), self.columns.node_classes[node_class].variables
        limits = math.floor(self._limit_price(self.columns.sizes(node_class)))
        for variable in variables.added_nodes.values() if limits else ():
            objective.add(variable, -limits)
        for index, level in enumerate(variables.form.levels[: self.level + 1]):
            price = self.columns.problem.params.price_scale if index == self.level else self.level_prices[index]
            if price:
                objective.add_scaled(level.expression, price)
        for (pod_class, _), variable in variables.pods.items():
            price = self.pod_prices.get(self.columns.problem.classes[pod_class].family, 0)
            if price:
                objective.add(variable, -price)
        return objective


class _Rows(NamedTuple):
    """Rows of a master: by node class, by family, by earlier level, and by limit of added nodes."""

    nodes: list[int]
    pods: dict[int, int]
    earlier: list[int]
    limits: list[int]
