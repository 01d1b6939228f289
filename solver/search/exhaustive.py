"""
Exhaustive search for a batch of one pod: every way to serve it on one node of each kind, compared by the objective.

Most decisions of a scheduler that has few pods are about one. Nodes of one kind serve it in the same ways, at equal
values of all levels. So one node of each kind with every choice of device types is all that there is, and the best of
these is a proven plan. What a way takes is counted as in the greedy, in a ledger of the node, what it is worth by the
objective; no relaxation and no model is written.

It is not tried where a value depends on more than the kind of the node, and given up where there are too many ways.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from solver.arrays import Amounts
from solver.domain import EXPECTED_ROOM, Budget, SearchStage
from solver.greedy.device_fit import Attempt, Counts, Singly
from solver.model.objective import counted, evaluate, objective_levels
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import State, type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.expected_room import ExpectedRoom
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component, Line, Option
from solver.problem.requests.remaining_options import are_complete
from solver.rules.quotas.bound_resources import NO_QUOTAS
from solver.search.bound import ContradictionError
from solver.solution import Choice, Pick, Solution, keeps_quotas

_MOST_KEPT = 20_000
"""Kinds of nodes of which the ways to serve a pod are kept."""


class _TooManyError(Exception):
    """There are more ways than may be looked at."""


def best(problem: Problem, start: Solution, budget: Budget) -> Solution | None:
    """
    Return the best solution for one pod, `start` if none is better; None where it is not looked for.

    Raise `ContradictionError` if a start that places the pod is worth what no way is.
    """
    if not problem.params.runs(SearchStage.EXHAUSTIVE) or not _is_one_pod(problem) or budget.should_stop():
        return None
    params, expects = problem.params, bool(problem.requests.expected)
    limit = params.exhaustive_expected_ways if expects else params.exhaustive_ways
    try:
        ways = list(_Enumeration(problem, limit, params.exhaustive_expected_pairs, params.exhaustive_steps).ways())
    except _TooManyError:
        return None
    best_way = _best_of(problem, ways)
    known, most = evaluate(problem, start), evaluate(problem, best_way)
    if known > most:
        raise ContradictionError(f"no way to place the pod is worth {known}, as the greedy's is")
    return best_way if most > known else start


Served = tuple[tuple[tuple[Pick, ...], ...], State]
"""Picks for every part of a pod, and what they leave of the node's devices."""


class _Way(NamedTuple):
    """A way to serve the pod on one of some nodes of a kind, and what it leaves of their devices."""

    choice: Choice
    nodes: Amounts
    after: State


def _best_of(problem: Problem, ways: Sequence[_Way]) -> Solution:
    """
    Compare the ways level by level, so that most levels are asked of few ways; return the first of equals.

    Nodes of a kind differ in what is lost of the room for expected pods. Each way takes the node that loses least.
    """
    levels, least = objective_levels(problem), [0] * len(ways)
    if any(level.name == EXPECTED_ROOM for level in levels):
        ways, least = _losing_least(problem, ways)
    solutions = ((Solution(), 0), *((Solution([way.choice]), lost) for way, lost in zip(ways, least, strict=True)))
    left = [(counted(problem, solution), lost) for solution, lost in solutions]
    for level in levels:
        if level.name == EXPECTED_ROOM:
            values = [-lost for _, lost in left]
        else:
            values = [level.evaluate(problem, each) for each, _ in left]
        most = max(values)
        left = [each for each, value in zip(left, values, strict=True) if value == most]
    return left[0][0].solution


def _losing_least(problem: Problem, ways: Sequence[_Way]) -> tuple[list[_Way], list[int]]:
    """Return the ways, each on the node that it takes the least expected room of, and how much that is."""
    room, found, least = ExpectedRoom(problem), list[_Way](), list[int]()
    for number in dict.fromkeys(way.choice.pod_class for way in ways):
        own = [way for way in ways if way.choice.pod_class == number]
        changes = [(way.nodes, way.after) for way in own]
        for way, lost in zip(own, room.lost(changes, problem.classes[number].requests), strict=True):
            at = int(np.argmin(lost))
            found.append(way._replace(choice=way.choice._replace(node=int(way.nodes[at]))))
            least.append(int(lost[at]))
    return found, least


def _is_one_pod(problem: Problem) -> bool:
    """Whether the batch is one pod with devices, and its value depends on the kind of its node alone."""
    families, costs = problem.families, problem.costs
    if len(families) != 1 or families[0][0].size != 1 or not any(each.parts for each in families[0]):
        return False
    depends = any(each.spread_costs or each.affinity_costs for each in (costs.preferences, costs.domains))
    wide = problem.available.wide_state or problem.layout.wide_types
    alone = replace(problem, rules=replace(problem.rules, quotas=NO_QUOTAS))  # one pod shares a quota with nobody
    return not (wide or depends or problem.shared or any(map(alone.is_coupled, families[0])))


@dataclass(slots=True, eq=False)
class _Enumeration:
    """All ways to place the pod: `left` more ways, and `pairs` with a node, may be looked at, in so many `steps`."""

    problem: Problem
    left: int
    pairs: int
    steps: int

    def ways(self) -> Iterator[_Way]:
        """Go through the ways, on the first node of each kind; raise `_TooManyError` if there are too many."""
        problem = self.problem
        places = ((pod_class, nodes) for pod_class in problem.classes for nodes in self._nodes(pod_class))
        for pod_class, nodes in places:
            node = int(nodes[0])
            for picks, after in self._served(pod_class, node):
                self.left -= 1
                self.pairs -= len(nodes) if problem.requests.expected else 0
                if self.left < 0 or self.pairs < 0:
                    raise _TooManyError
                way = _Way(Choice(pod_class.index, node, picks), nodes, after)
                if keeps_quotas(problem, way.choice):
                    yield way

    def _nodes(self, pod_class: PodClass) -> list[Amounts]:
        """Return the nodes that the pod may use and that have room for it, those of one kind together."""
        problem = self.problem
        fits = pod_class.verdicts.allowed & problem.available.room.fits(pod_class.requests)
        nodes = np.flatnonzero(fits)
        codes = problem.device_keys()[1][nodes]
        for column in self._columns(nodes):
            codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        kinds = np.split(nodes[order], np.flatnonzero(np.diff(codes[order])) + 1) if len(nodes) else []
        return sorted(kinds, key=lambda each: int(each[0]))

    def _columns(self, nodes: Amounts) -> Iterator[Amounts]:
        """Number the nodes by what makes them differ beside their devices: costs, groups of nodes, partitions."""
        problem = self.problem
        for limit in problem.rules.quotas.limits:
            if limit.counts_nodes:
                yield np.isin(nodes, list(limit.nodes)).astype(np.int64)
        names = {level.name for level in objective_levels(problem)}
        for _, costs in problem.costs.of_nodes:
            yield np.unique(costs[nodes], return_inverse=True)[1]
        if "opened-groups" in names and (group_of := fragmentation.node_groups(problem)):
            yield np.array([node in group_of for node in nodes.tolist()], dtype=np.int64)
        if "spoiled-partitions" in names and problem.inventory.budgets:
            numbers = dict[int, int]()
            tables = [fragmentation.partitions(problem, node) for node in nodes.tolist()]
            yield np.array([numbers.setdefault(id(table), len(numbers)) for table in tables], dtype=np.int64)

    def _served(self, pod_class: PodClass, node: int) -> Iterable[Served]:
        """
        Return the ways to serve all copies of all parts on a node.

        They are kept with the layout: from one pod to the next one node changes.
        """
        problem, known = self.problem, self.problem.layout.served
        components = tuple((problem.requests.components[each.component], each.copies) for each in pod_class.parts)
        key = (components, problem.layout.group_of[node], problem.available.states[node])
        found = known.get(key)
        if found is None:
            found = tuple(islice(self._enumerated(pod_class, node), self.left + 1))
            if len(found) > self.left:
                raise _TooManyError
            options = [problem.options(each.component, problem.group(node)) for each in pod_class.parts]
            is_complete = all(are_complete(each, of) for (each, _), of in zip(components, options, strict=True))
            if is_complete and len(found) <= problem.params.exhaustive_ways:
                if len(known) >= _MOST_KEPT:
                    known.clear()
                known[key] = found
        return found

    def _enumerated(self, pod_class: PodClass, node: int) -> Iterator[Served]:
        problem, group, steps = self.problem, self.problem.group(node), self.steps
        attempt = Attempt(problem, group, NodeLedger.of(problem.available.states[node]), steps=steps, work=steps)
        copies = [each for each, part in enumerate(pod_class.parts) for _ in range(part.copies)]
        parts = [each.component for each in pod_class.parts]
        for picks in self._picks(attempt, [parts[each] for each in copies]):
            of_parts = (
                tuple(pick for pick, at in zip(picks, copies, strict=True) if at == each) for each in range(len(parts))
            )
            yield tuple(of_parts), tuple(attempt.ledger.local)
        self.steps = min(attempt.steps, attempt.work)
        if self.steps < 0:
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
