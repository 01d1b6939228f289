"""
The configuration model: what may leave and come to one node is a column, and a master says how often each is used.

Gilmore and Gomory (1961) price columns in by the dual values of a linear master; CP-SAT finds the best column of each
kind of node. The same prices prove a bound (Lagrange): no set of moves is smaller, whatever columns there are. CP-SAT
then chooses among the columns known.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.engines.linear import TOLERANCE, LinearProgram
from solver.model.form import Expression, IntegerForm
from solver.repair import least_harm
from solver.repair.column_use import NodeColumn, Use
from solver.repair.node_kinds import NO_LEVEL, GangShape, KindsOfNodes, NodeKind, PodTypes, kinds_of_nodes
from solver.repair.repair_case import MovesFound, RepairCase
from solver.rules.forms.domains import NO_DOMAIN

_SCALE: Final = 1_000_000
"""Prices are integers in millionths of a move."""
_MISSING: Final = 1_000
"""What a pod without a place costs the linear master, in moves; enough that none is missing where that can be."""
_ROUNDS: Final = 60
_SEEDED_KINDS: Final = 64
_SEEDED_MOVES: Final = 8
_FIRST: Final = 1_000
"""Weight of one pod of the type that seeds a column, where others count 1; its square is that of a pod that stays."""
_MASTER_SECONDS: Final = 20.0
_PRICING_SECONDS: Final = 0.2


def fewest_moves(case: RepairCase) -> MovesFound | None:
    """Find the fewest moves by counting; None where counts of pods by kinds of nodes do not say all that matters."""
    types = PodTypes.of(case)
    if types is None:
        return None
    model = _Model(case, types, kinds_of_nodes(types))
    model.seed()
    least = model.bound(move_cost=1)
    used = model.best(least)
    if used is None:
        is_impossible = model.bound(move_cost=0) > 0
        return MovesFound(None, least, is_proven=is_impossible)
    return least_harm.chosen(types, model.kinds, used, least)


@dataclass(slots=True, eq=False)
class _Model:
    """Columns found so far, and how they are priced and combined."""

    case: RepairCase
    types: PodTypes
    found: KindsOfNodes
    columns: dict[NodeColumn, None] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[NodeKind, ...]:
        """The kinds of nodes that could take a pod."""
        return self.found.kinds

    def seed(self) -> None:
        """Fill one node of each kind with as many pods of each type as fit after so many moves of each stay type."""
        for index, kind in enumerate(self.kinds):
            choices: list[list[int]] = [[]]
            if len(self.kinds) <= _SEEDED_KINDS:
                for stays in kind.stays.values():
                    choices += [stays[:count] for count in range(1, min(len(stays), _SEEDED_MOVES) + 1)]
            every = [variable for stays in kind.stays.values() for variable in stays]
            for moved, wanted in product(choices, kind.pods.values()):
                if self.case.budget.should_stop():
                    return
                worth = Expression(dict.fromkeys(kind.pods.values(), 1))
                worth.add(wanted, _FIRST)
                for variable in every:
                    worth.add(variable, _FIRST * _FIRST)
                self._price(index, worth, dict.fromkeys(moved, 0))

    def _price(self, index: int, worth: Expression, upper: Mapping[int, int]) -> tuple[int | None, bool]:
        """Find the best column of a kind; return its bound, and whether the column is new."""
        kind = self.kinds[index]
        effort = Effort(
            seconds=self.case.budget.remaining_seconds(),
            deterministic_seconds=_PRICING_SECONDS,
            seed=self.case.budget.seed,
            workers=1,
            presolve=False,
        )
        result = kind.pricing_model.maximize(worth, effort, upper=upper)
        if result.values is None:
            return result.bound, False
        counts = tuple((number, result.values[variable]) for number, variable in sorted(kind.pods.items()))
        moved = tuple(
            (number, sum(not result.values[variable] for variable in variables))
            for number, variables in sorted(kind.stays.items())
        )
        column = NodeColumn(
            index,
            tuple(each for each in counts if each[1]),
            tuple(each for each in moved if each[1]),
        )
        is_new = column not in self.columns and bool(column.pods or column.moved)
        if is_new:
            self.columns[column] = None
        return result.bound, is_new

    def bound(self, move_cost: int) -> int:
        """
        Price columns in until none helps; return a proven lower bound of the moves.

        Without a cost of moves it is one of the pods without a place.
        """
        best, master = 0, _Master(self, move_cost)
        for _ in range(_ROUNDS):
            value = master.solve()
            if value is None or self.case.budget.should_stop():
                break
            bound, grew = self._price_all(master)
            best = max(best, bound)
            if not grew or best >= math.ceil(value - TOLERANCE):
                break
        return best

    def _price_all(self, master: "_Master") -> tuple[int, bool]:
        total, grew = master.constant(), False
        for index, kind in enumerate(self.kinds):
            worth, offset = master.reduced_worth(kind)
            bound, is_new = self._price(index, worth, {})
            grew = grew or is_new
            if bound is None:
                return 0, grew
            total -= len(kind.nodes) * max(0, bound + offset)
        return max(0, -(-total // _SCALE)), grew

    def best(self, least: int) -> Use | None:
        """Choose how often each column is used, with the fewest moves; None where that was not found."""
        form, moves = IntegerForm(), Expression()
        nodes: defaultdict[int, Expression] = defaultdict(Expression)
        columns = list(self.columns)
        variables = [form.variable(0, len(self.kinds[column.kind].nodes)) for column in columns]
        rows = self.rows(dict(zip(columns, variables, strict=True)))
        for column, variable in zip(columns, variables, strict=True):
            nodes[column.kind].add(variable)
            if column.moves:
                moves.add(variable, -column.moves)
        for kind, total in nodes.items():
            form.require(total, "nodes of a kind", high=len(self.kinds[kind].nodes))
        shares: dict[tuple[GangShape, int], int] = {}
        for shape, rules in self.types.shapes.items():
            total = Expression()
            for domain in self.domains(shape.level):
                variable = shares[shape, domain] = form.variable(0, len(rules))
                total.add(variable)
                for pod_type, size in shape.sizes:
                    rows[pod_type, domain].add(variable, -size)
            form.require(total, "each gang once", low=len(rules), high=len(rules))
        for (pod_type, domain), row in rows.items():
            form.require(row, "each pod once", low=self.types.needed[pod_type] if domain == NO_DOMAIN else 0)
        effort = Effort.within(self.case.budget, _MASTER_SECONDS, presolve=True)
        result = cpsat.maximize(form, moves, effort, cutoff=-least)
        if result.values is None:
            return None
        values = result.values
        return Use(
            {column: values[variable] for column, variable in zip(columns, variables, strict=True) if values[variable]},
            {key: values[variable] for key, variable in shares.items() if values[variable]},
            is_best=result.status is EngineStatus.OPTIMAL,
        )

    def domains(self, level: int) -> list[int]:
        """Return the domains of a level that have nodes."""
        return sorted({kind.domains[level] for kind in self.kinds} - {NO_DOMAIN})

    def rows(self, variables: Mapping[NodeColumn, int]) -> dict[tuple[int, int], Expression]:
        """Sum up by pod type, and by domain where gangs share one, the pods that come less the successors."""
        rows: dict[tuple[int, int], Expression] = {}
        for pod_type, level in enumerate(self.types.level_of):
            for domain in [NO_DOMAIN] if level == NO_LEVEL else self.domains(level):
                rows[pod_type, domain] = Expression()
        for column, variable in variables.items():
            for key, count in self.served(column):
                if key in rows:
                    rows[key].add(variable, count)
        return rows

    def served(self, column: NodeColumn) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield by pod type and domain the pods that come to a node less the successors of those that leave it."""
        kind = self.kinds[column.kind]
        for pod_type, count in column.pods:
            yield (pod_type, self.domain(kind, pod_type)), count
        for stay, count in column.moved:
            yield (self.found.stay_types[stay].pod_type, NO_DOMAIN), -count

    def domain(self, kind: NodeKind, pod_type: int) -> int:
        """Return the domain in which a kind of node counts for a pod type; `NO_DOMAIN` where none matters."""
        level = self.types.level_of[pod_type]
        return NO_DOMAIN if level == NO_LEVEL else kind.domains[level]


class _Master:
    """The linear master over columns: moves, and pods without a place at a price."""

    def __init__(self, model: _Model, move_cost: int) -> None:
        self._model = model
        self._move_cost = move_cost
        self._missing = _MISSING if move_cost else 1
        self._programme = LinearProgram()
        self._seen = 0
        self._kinds = [self._programme.row(high=len(kind.nodes)) for kind in model.kinds]
        self._rows: dict[tuple[int, int], int] = {}
        types = model.types
        for key in model.rows({}):
            low = types.needed[key[0]] if key[1] == NO_DOMAIN else 0
            self._rows[key] = self._programme.row(low=low)
            self._programme.column({self._rows[key]: 1}, worth=-self._missing)
        for shape, rules in types.shapes.items():
            row = self._programme.row(low=len(rules), high=len(rules))
            for domain in model.domains(shape.level):
                amounts = {self._rows[number, domain]: -size for number, size in shape.sizes}
                self._programme.column({row: 1, **amounts}, worth=0)
        self._prices: dict[tuple[int, int], int] = {}

    def solve(self) -> float | None:
        """Solve it with all columns known by now; return the least cost, None without one."""
        model = self._model
        for column in list(model.columns)[self._seen :]:
            amounts: defaultdict[int, int] = defaultdict(int)
            amounts[self._kinds[column.kind]] = 1
            for key, count in model.served(column):
                if key in self._rows:
                    amounts[self._rows[key]] += count
            worth = -self._move_cost * column.moves
            self._programme.column(amounts, worth=worth, most=len(model.kinds[column.kind].nodes))
        self._seen = len(model.columns)
        found = self._programme.solve(model.case.budget.remaining_seconds())
        if found is None:
            return None
        self._prices = {key: max(0, round(-found.duals[row] * _SCALE)) for key, row in self._rows.items()}
        return -found.value

    def constant(self) -> int:
        """Return what all pods that need a place are worth at their prices, in `_SCALE`."""
        types, prices = self._model.types, self._prices
        total = sum(price * types.needed[number] for (number, domain), price in prices.items() if domain == NO_DOMAIN)
        for shape, rules in types.shapes.items():
            costs = [
                sum(prices[number, domain] * size for number, size in shape.sizes)
                for domain in self._model.domains(shape.level)
            ]
            total += len(rules) * min(costs, default=self._missing * _SCALE)
        return total

    def reduced_worth(self, kind: NodeKind) -> tuple[Expression, int]:
        """Return what a column of a kind is worth at these prices, in `_SCALE`: an expression, and a constant."""
        model, worth, offset = self._model, Expression(), 0
        for pod_type, variable in kind.pods.items():
            price = self._prices.get((pod_type, model.domain(kind, pod_type)), 0)
            if price:
                worth.add(variable, price)
        for stay, variables in kind.stays.items():
            successor = model.found.stay_types[stay].pod_type
            cost = self._move_cost * _SCALE + self._prices.get((successor, NO_DOMAIN), 0)
            for variable in variables:
                worth.add(variable, cost)
                offset -= cost
        return worth, offset
