"""
Exhaustive search for a batch of one pod: every way to serve it on one node of each kind, compared by the objective.

Most decisions of a scheduler that has few pods are about one. Nodes of one kind serve it in the same ways, at equal
values of all levels. So one node of each kind with every choice of device types is all that there is, and the best of
these is a proven plan. What a way takes is counted as in the greedy, in a ledger of the node, what it is worth by the
objective; no relaxation and no model is written.

It is not tried where a value depends on more than the kind of the node, and given up where there are too many ways.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts
from solver.domain import EXPECTED_ROOM, Budget, SearchStage
from solver.greedy.device_fit import Attempt, Counts, Singly
from solver.model.objective import CountedSolution, ObjectiveLevel, counted, objective_levels
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import State, type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.expected_room import ExpectedRoom
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component, Line, Option
from solver.problem.requests.remaining_options import are_complete
from solver.rules.quotas.bound_resources import NO_QUOTAS
from solver.solution import Choice, Pick, Solution, keeps_quotas

_MOST_KEPT: Final = 20_000
"""Kinds of nodes of which the ways to serve a pod are kept."""
_NO_WAY: Final = -1


class _TooManyError(Exception):
    """There are more ways than may be looked at."""


def best(problem: Problem, budget: Budget) -> Solution | None:
    """Return the best solution for one pod, which may be none; None where it is not looked for."""
    if not problem.params.runs(SearchStage.EXHAUSTIVE) or not _is_one_pod(problem) or budget.should_stop():
        return None
    params, expects = problem.params, bool(problem.requests.expected)
    limit = params.exhaustive_expected_ways if expects else params.exhaustive_ways
    try:
        ways = list(_Enumeration(problem, limit, params.exhaustive_expected_pairs, params.exhaustive_steps).ways())
    except _TooManyError:
        return None
    return _Comparison(problem, ways).best()


Served = tuple[tuple[tuple[Pick, ...], ...], State]
"""Picks for every part of a pod, and what they leave of the node's devices."""


class _Way(NamedTuple):
    """A way to serve the pod on one of some nodes of a kind, and what it leaves of their devices."""

    choice: Choice
    nodes: Amounts
    after: State


@dataclass(slots=True, eq=False)
class _Comparison:
    """
    Compares ways level by level, so that most levels are asked of few of them; the first of equals is the best.

    Nodes of a kind differ in what is lost of the room for expected pods. Each way takes the node that loses least.
    """

    problem: Problem
    ways: Sequence[_Way]
    counted: dict[int, CountedSolution] = field(default_factory=dict)
    alike: dict[int, int] = field(init=False)
    """For each way, the first of its class that picks the same on a node of its group."""
    nodes: dict[int, int] = field(default_factory=dict)
    """The nodes that ways take because least is lost there; the first of their nodes until that is asked."""

    def best(self) -> Solution:
        """Return the best way, or no way if that is better."""
        group_of, first = self.problem.layout.group_of, dict[Hashable, int]()
        self.alike = {_NO_WAY: _NO_WAY} | {
            number: first.setdefault((choice.pod_class, group_of[choice.node], choice.picks), number)
            for number, (choice, *_) in enumerate(self.ways)
        }
        left = [_NO_WAY, *range(len(self.ways))]
        for level in objective_levels(self.problem):
            values = self._values(level, left)
            most = max(values)
            left = [number for number, value in zip(left, values, strict=True) if value == most]
        return self._solution(left[0])

    def _values(self, level: ObjectiveLevel, numbers: Sequence[int]) -> list[int]:
        """Evaluate a level for some ways."""
        if level.name == EXPECTED_ROOM:
            return [-lost for lost in self._least_lost(numbers)]
        if not level.is_of_picks:
            return [self._value(level, number) for number in numbers] if len(numbers) > 1 else [0]
        firsts = dict.fromkeys(self.alike[number] for number in numbers)
        known = {number: self._value(level, number) for number in firsts} if len(firsts) > 1 else {}
        return [known.get(self.alike[number], 0) for number in numbers]

    def _value(self, level: ObjectiveLevel, number: int) -> int:
        found = self.counted.get(number)
        if found is None:
            found = self.counted[number] = counted(self.problem, self._solution(number))
        return level.evaluate(self.problem, found)

    def _solution(self, number: int) -> Solution:
        if number == _NO_WAY:
            return Solution()
        choice = self.ways[number].choice
        return Solution([choice._replace(node=self.nodes[number]) if number in self.nodes else choice])

    def _least_lost(self, numbers: Sequence[int]) -> list[int]:
        """Let each way take the node of which it takes the least expected room, and return how much that is."""
        room, lost = ExpectedRoom(self.problem), dict.fromkeys(numbers, 0)
        of_class: dict[int, list[int]] = {}
        for number in numbers:
            if number != _NO_WAY:
                of_class.setdefault(self.ways[number].choice.pod_class, []).append(number)
        for pod_class, own in of_class.items():
            changes = [(self.ways[number].nodes, self.ways[number].after) for number in own]
            found = room.least_lost(changes, self.problem.classes[pod_class].requests)
            for number, (least, node) in zip(own, found, strict=True):
                lost[number], self.nodes[number] = least, node
        return list(lost.values())


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
        known = {each.index: self._known(each) for each in problem.classes}
        places = ((pod_class, nodes) for pod_class in problem.classes for nodes in self._nodes(pod_class))
        for pod_class, nodes in places:
            node = int(nodes[0])
            for picks, after in self._served(pod_class, node, known[pod_class.index]):
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
        available = problem.available
        nodes = np.flatnonzero(pod_class.verdicts.allowed & available.room.fits(pod_class.requests))
        codes = 2 * available.kind_of[nodes] + available.is_unused[nodes]
        for column in self._columns(nodes):
            codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        nodes, codes = nodes[order], codes[order]
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(nodes)] if len(nodes) else []
        kinds = [nodes[start:end] for start, end in pairwise(bounds)]
        return sorted(kinds, key=lambda each: int(each[0]))

    def _columns(self, nodes: Amounts) -> Iterator[Amounts]:
        """Number the nodes by what makes them differ beside their devices: costs, groups of nodes, partitions."""
        problem = self.problem
        for limit in problem.rules.quotas.limits:
            if limit.counts_nodes:
                yield np.isin(nodes, list(limit.nodes)).astype(np.int64)
        names = problem.other_levels
        for _, costs in problem.costs.of_nodes:
            yield np.unique(costs[nodes], return_inverse=True)[1]
        if problem.costs.nodes is not None:
            yield problem.costs.nodes.shape_of[nodes] + 1
        if "opened-groups" in names and (group_of := fragmentation.node_groups(problem)):
            yield np.array([node in group_of for node in nodes.tolist()], dtype=np.int64)
        if "spoiled-partitions" in names and problem.inventory.budgets:
            numbers = dict[int, int]()
            tables = [fragmentation.partitions(problem, node) for node in nodes.tolist()]
            yield np.array([numbers.setdefault(id(table), len(numbers)) for table in tables], dtype=np.int64)

    def _known(self, pod_class: PodClass) -> dict[Hashable, tuple[Served, ...]]:
        """Return what the layout keeps of the ways to serve a pod: from one pod to the next one node changes."""
        components = self.problem.requests.components
        asked = tuple((components[each.component], each.copies) for each in pod_class.parts)
        return self.problem.layout.served.setdefault(asked, {})

    def _served(self, pod_class: PodClass, node: int, known: dict[Hashable, tuple[Served, ...]]) -> Iterable[Served]:
        """Return the ways to serve all copies of all parts on a node."""
        problem = self.problem
        key = (problem.layout.group_of[node], problem.available.states[node])
        found = known.get(key)
        if found is None:
            found = tuple(islice(self._enumerated(pod_class, node), self.left + 1))
            if len(found) > self.left:
                raise _TooManyError
            of_parts = (
                (problem.requests.components[each.component], problem.options(each.component, problem.group(node)))
                for each in pod_class.parts
            )
            is_complete = all(are_complete(component, options) for component, options in of_parts)
            if is_complete and len(found) <= problem.params.exhaustive_ways:
                if sum(map(len, problem.layout.served.values())) >= _MOST_KEPT:
                    problem.layout.served.clear()
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
        if not count:
            yield from _line(attempt, line, types[1:], needed)
            return
        before = attempt.ledger.checkpoint()
        attempt.ledger.take(device, line.demand, count)
        for rest in _line(attempt, line, types[1:], needed - count):
            yield ((types[0], count), *rest)
        attempt.ledger.rollback(before)
