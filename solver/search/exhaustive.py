"""
Exhaustive search for a batch of one pod: every way to serve it on one node of each kind, compared by the objective.

Most decisions of a scheduler that has few pods are about one. Nodes of one kind serve it in the same ways, at equal
values of all levels. So one node of each kind with every choice of device types is all that there is, and the best of
these is a proven plan. What a way takes is counted as in the greedy, in a ledger of the node, what it is worth by the
objective; no relaxation and no model is written.

It is not tried where a value depends on more than the kind of the node, and given up where there are too many ways.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solver.arrays import Amounts
from solver.domain import Budget, SearchStage
from solver.greedy.device_fit import Attempt, Counts, Singly
from solver.model import objective
from solver.model.objective import evaluate, objective_levels
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component, Line, Option
from solver.search.bound import ContradictionError
from solver.solution import Choice, Pick, Solution

_STEPS_A_WAY = 8
"""Steps of the enumeration for each way that may be looked at; most steps lead to one."""


class _TooManyError(Exception):
    """There are more ways than may be looked at."""


def best(problem: Problem, start: Solution, budget: Budget) -> Solution | None:
    """
    Return the best solution for one pod, `start` if none is better; None where it is not looked for.

    Raise `ContradictionError` if a start that places the pod is worth what no way is.
    """
    if not problem.params.runs(SearchStage.EXHAUSTIVE) or not _is_one_pod(problem) or budget.should_stop():
        return None
    try:
        ways = [Solution([choice]) for choice in _Enumeration(problem, problem.params.exhaustive_ways).choices()]
    except _TooManyError:
        return None
    best_way = objective.best_of(problem, (Solution(), *ways))
    known, most = evaluate(problem, start), evaluate(problem, best_way)
    if known > most:
        raise ContradictionError(f"no way to place the pod is worth {known}, as the greedy's is")
    return best_way if most > known else start


def _is_one_pod(problem: Problem) -> bool:
    """Whether the batch is one pod with devices, and its value depends on the kind of its node alone."""
    families, costs = problem.families, problem.costs
    if len(families) != 1 or families[0][0].size != 1 or not any(each.parts for each in families[0]):
        return False
    depends = any(each.spread_costs or each.affinity_costs for each in (costs.preferences, costs.domains))
    wide = problem.available.wide_state or problem.layout.wide_types
    return not (wide or depends or problem.shared or any(map(problem.is_coupled, families[0])))


@dataclass(slots=True, eq=False)
class _Enumeration:
    """All ways to place the pod: `left` more ways may be looked at."""

    problem: Problem
    left: int

    def choices(self) -> Iterator[Choice]:
        """Go through the ways, on the first node of each kind; raise `_TooManyError` if there are too many."""
        places = ((pod_class, node) for pod_class in self.problem.classes for node in self._nodes(pod_class))
        for pod_class, node in places:
            for picks in self._served(pod_class, node):
                self.left -= 1
                if self.left < 0:
                    raise _TooManyError
                yield Choice(pod_class.index, node, picks)

    def _nodes(self, pod_class: PodClass) -> Sequence[int]:
        """Return one node of each kind that the pod may use and that has room for it."""
        problem = self.problem
        fits = pod_class.verdicts.allowed & problem.available.room.fits(pod_class.requests)
        nodes = np.flatnonzero(fits)
        codes = problem.device_keys()[1][nodes]
        for column in self._columns(nodes):
            codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        first = np.unique(codes, return_index=True)[1]
        return sorted(nodes[first].tolist())

    def _columns(self, nodes: Amounts) -> Iterator[Amounts]:
        """Number the nodes by what makes them differ beside their devices: costs, groups of nodes, partitions."""
        problem = self.problem
        names = {level.name for level in objective_levels(problem)}
        for _, costs in problem.costs.of_nodes:
            yield np.unique(costs[nodes], return_inverse=True)[1]
        if "opened-groups" in names and (group_of := fragmentation.node_groups(problem)):
            yield np.array([node in group_of for node in nodes.tolist()], dtype=np.int64)
        if "spoiled-partitions" in names and problem.inventory.budgets:
            numbers = dict[int, int]()
            tables = [fragmentation.partitions(problem, node) for node in nodes.tolist()]
            yield np.array([numbers.setdefault(id(table), len(numbers)) for table in tables], dtype=np.int64)

    def _served(self, pod_class: PodClass, node: int) -> Iterator[tuple[tuple[Pick, ...], ...]]:
        """Go through the ways to serve all copies of all parts on a node."""
        problem, group, steps = self.problem, self.problem.group(node), max(1, _STEPS_A_WAY * self.left)
        attempt = Attempt(problem, group, NodeLedger.of(problem.available.states[node]), steps=steps, work=steps)
        copies = [each for each, part in enumerate(pod_class.parts) for _ in range(part.copies)]
        parts = [each.component for each in pod_class.parts]
        for picks in self._picks(attempt, [parts[each] for each in copies]):
            yield tuple(
                tuple(pick for pick, at in zip(picks, copies, strict=True) if at == each) for each in range(len(parts))
            )
        if attempt.steps < 0 or attempt.work < 0:
            raise _TooManyError

    def _picks(self, attempt: Attempt, copies: list[int]) -> Iterator[tuple[Pick, ...]]:
        if not copies:
            yield ()
            return
        component = self.problem.requests.components[copies[0]]
        for index, option in enumerate(self.problem.options(copies[0], attempt.group)):
            before = attempt.ledger.checkpoint()
            for counts in _lines(attempt, component, option):
                yield from ((Pick(index, counts), *rest) for rest in self._picks(attempt, copies[1:]))
            attempt.ledger.rollback(before)


def _lines(attempt: Attempt, component: Component, option: Option) -> Iterator[Counts]:
    """Go through the devices that the lines of an option can have; they are taken while a way is looked at."""
    if any(line.takes_each or not line.needed for line in option.lines):
        raise _TooManyError
    if component.needs_identity:
        return Singly(attempt, component, option).picks()
    return _rest_of_lines(attempt, option.lines)


def _rest_of_lines(attempt: Attempt, lines: tuple[Line, ...]) -> Iterator[Counts]:
    if not lines:
        yield ()
        return
    for counts in _line(attempt, lines[0], lines[0].types, lines[0].needed):
        for rest in _rest_of_lines(attempt, lines[1:]):
            yield (counts, *rest)


def _line(attempt: Attempt, line: Line, types: tuple[int, ...], needed: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Go through the numbers of devices of each type that make up what a line needs."""
    if not needed:
        yield ()
        return
    if not types or not attempt.step():
        return
    device = type_at(attempt.problem.layout, attempt.group, types[0])
    for count in range(min(attempt.ledger.most(device, line.demand), needed), -1, -1):
        before = attempt.ledger.checkpoint()
        if count:
            attempt.ledger.take(device, line.demand, count)
        for rest in _line(attempt, line, types[1:], needed - count):
            yield ((types[0], count), *rest) if count else rest
        attempt.ledger.rollback(before)
