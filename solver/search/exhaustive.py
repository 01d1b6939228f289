"""
Exhaustive search for a batch of one pod: every way to serve it on one node of each kind, compared by the objective.

Most decisions of a scheduler that has few pods are about one. Nodes of one kind serve it in the same ways, at equal
values of all levels. So one node of each kind with every choice of device types is all that there is, and the best of
these is a proven plan. What a way is worth is counted by the objective; no relaxation and no model is written.

It is not tried where a value depends on more than the kind of the node, and given up where there are too many ways.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts
from solver.domain import EXPECTED_ROOM, Budget, SearchStage
from solver.model.objective import CountedSolution, ObjectiveLevel, Values, objective_levels
from solver.problem.devices import fragmentation
from solver.problem.expected_room import ExpectedRoom
from solver.problem.problem import PodClass, Problem
from solver.search.node_ways import KeptWays, NodeWay, NodeWays, NodeWaySearch, TooManyWaysError
from solver.solution import Choice, Solution, keeps_quotas

_NO_WAY: Final = -1


class BestWay(NamedTuple):
    """The best solution for one pod, which may be none, and its value of each level."""

    solution: Solution
    values: Values


def best(problem: Problem, budget: Budget) -> BestWay | None:
    """Return the best solution for one pod; None where it is not looked for."""
    if not problem.params.runs(SearchStage.EXHAUSTIVE) or not _is_one_pod(problem) or budget.should_stop():
        return None
    try:
        found = list(_places(problem))
    except TooManyWaysError:
        return None
    return _Comparison.of(problem, found).best()


class _WaysOfKind(NamedTuple):
    """Nodes of one kind, and the ways to serve pods of a class there."""

    pod_class: int
    nodes: Amounts
    kind: NodeWays


class _Way(NamedTuple):
    """A way to serve the pod on one of some nodes of a kind; `position` is its place among the ways of the kind."""

    pod_class: int
    kind: int
    position: int
    node: int
    way: NodeWay


@dataclass(slots=True, eq=False)
class _Comparison:
    """
    Compares ways level by level, so that most levels are asked of few of them; the first of equals is the best.

    Nodes of a kind differ in what is lost of the room for expected pods. Each way takes the node that loses least.
    """

    problem: Problem
    kinds: Sequence[_WaysOfKind]
    ways: list[_Way]
    counted: dict[int, CountedSolution] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    """The nodes that ways take because least is lost there; the first of their nodes until that is asked."""

    @classmethod
    def of(cls, problem: Problem, kinds: Sequence[_WaysOfKind]) -> "_Comparison":
        """List the ways in order."""
        ways = [
            _Way(each.pod_class, kind, position, first, way)
            for kind, each in enumerate(kinds)
            for first in (int(each.nodes[0]),)
            for position, way in enumerate(each.kind.ways)
        ]
        return cls(problem, kinds, ways)

    def best(self) -> BestWay:
        """Return the best way, or no way if that is better."""
        left, known = [_NO_WAY, *range(len(self.ways))], list[int]()
        for level in objective_levels(self.problem):
            values = self._values(level, left)
            known.append(max(values))
            left = [number for number, value in zip(left, values, strict=True) if value == known[-1]]
        return BestWay(self._solution(left[0]), tuple(known))

    def _values(self, level: ObjectiveLevel, numbers: Sequence[int]) -> list[int]:
        """Evaluate a level for some ways."""
        if level.name == EXPECTED_ROOM:
            return self._least_lost(numbers)
        if not level.is_of_picks:
            return [self._value(level, number) for number in numbers]
        keys, known = [self._totals(number) for number in numbers], dict[Hashable, int]()
        for key, number in zip(keys, numbers, strict=True):
            if key not in known:
                known[key] = self._value(level, number)
        return [known[key] for key in keys]

    def _totals(self, number: int) -> Hashable:
        """Return what levels of picks depend on."""
        if number == _NO_WAY:
            return None
        way = self.ways[number]
        return way.pod_class, way.way.use.totals

    def _value(self, level: ObjectiveLevel, number: int) -> int:
        found = self.counted.get(number)
        if found is None:
            solution = self._solution(number)
            uses = [(choice.node, self.ways[number].way.use) for choice in solution.choices]
            found = self.counted[number] = CountedSolution(self.problem, solution, uses)
        return level.evaluate(self.problem, found)

    def _solution(self, number: int) -> Solution:
        if number == _NO_WAY:
            return Solution()
        way = self.ways[number]
        return Solution([Choice(way.pod_class, self.nodes.get(number, way.node), way.way.picks)])

    def _least_lost(self, numbers: Sequence[int]) -> list[int]:
        """Let each way take the node of which it takes the least expected room, and value it by that."""
        room, values = ExpectedRoom(self.problem), dict.fromkeys(numbers, 0)
        of_class: dict[int, list[int]] = {}
        for number in numbers:
            if number != _NO_WAY:
                of_class.setdefault(self.ways[number].pod_class, []).append(number)
        for pod_class, own in of_class.items():
            nodes = [self.kinds[self.ways[number].kind].nodes for number in own]
            after = [self._after(room, self.ways[number]) for number in own]
            found = room.least_lost(nodes, after, self.problem.classes[pod_class].requests)
            for number, least, node in zip(own, *found, strict=True):
                values[number], self.nodes[number] = -least, node
                self.counted.pop(number, None)
        return list(values.values())

    def _after(self, room: ExpectedRoom, way: _Way) -> Amounts:
        """Count by expected kind what devices have room for after a way."""
        found: Amounts = self.kinds[way.kind].kind.counts(room, self.problem.group(way.node))[way.position]
        return found


def _is_one_pod(problem: Problem) -> bool:
    """Whether the batch is one pod with devices, and its value depends on the kind of its node alone."""
    families, costs = problem.families, problem.costs
    if len(families) != 1 or families[0][0].size != 1 or not any(each.parts for each in families[0]):
        return False
    depends = any(each.spread_costs or each.affinity_costs for each in (costs.preferences, costs.domains))
    wide = problem.available.wide_state or problem.layout.wide_types
    is_coupled = any(problem.is_coupled(each, by_quotas=False) for each in families[0])  # it shares a quota with nobody
    return not (wide or depends or problem.shared or is_coupled)


def _places(problem: Problem) -> Iterator[_WaysOfKind]:
    """
    Go through the kinds of nodes that can serve the pod, with the ways to do so; raise `TooManyWaysError`.

    So many ways, and pairs of one with a node, may be looked at; ways of a kind are those on its first node.
    """
    params, expects = problem.params, bool(problem.requests.expected)
    left, pairs = (
        params.exhaustive_expected_ways if expects else params.exhaustive_ways,
        params.exhaustive_expected_pairs,
    )
    search = NodeWaySearch(problem, params.exhaustive_steps)
    for pod_class in problem.classes:
        kept, is_bound = KeptWays.of(problem, pod_class), pod_class.index in problem.rules.quotas.of_class
        for nodes in _nodes(problem, pod_class, kept):
            node = int(nodes[0])
            found = search.ways(pod_class, node, kept, left)
            left -= len(found.ways)
            pairs -= len(found.ways) * len(nodes) if expects else 0
            if left < 0 or pairs < 0:
                raise TooManyWaysError
            if is_bound:
                choices = ((way, Choice(pod_class.index, node, way.picks)) for way in found.ways)
                found = NodeWays(tuple(way for way, choice in choices if keeps_quotas(problem, choice)))
            if found.ways:
                yield _WaysOfKind(pod_class.index, nodes, found)


def _nodes(problem: Problem, pod_class: PodClass, kept: KeptWays) -> list[Amounts]:
    """Return the nodes that the pod may use and that have room for it, those of one kind together."""
    available = problem.available
    nodes = np.flatnonzero(pod_class.verdicts.allowed & available.room.fits(pod_class.requests))
    nodes = nodes[~kept.closed[available.kind_of[nodes]]]
    codes = 2 * available.kind_of[nodes] + available.is_unused[nodes]
    for column in _columns(problem, nodes):
        codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    nodes, codes = nodes[order], codes[order]
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(nodes)] if len(nodes) else []
    kinds = [nodes[start:end] for start, end in pairwise(bounds)]
    return sorted(kinds, key=lambda each: int(each[0]))


def _columns(problem: Problem, nodes: Amounts) -> Iterator[Amounts]:
    """Number the nodes by what makes them differ beside their devices: costs, groups of nodes, partitions."""
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
