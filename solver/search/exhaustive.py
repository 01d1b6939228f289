"""
Exhaustive search for a batch of one pod: every way to serve it on one node of each kind, compared by the objective.

Most decisions of a scheduler that has few pods are about one. Nodes of one kind serve it in the same ways, at equal
values of all levels. So one node of each kind with every choice of device types is all that there is, and the best of
these is a proven plan. What a way is worth is counted by the objective; no relaxation and no model is written.

It is not tried where a value depends on more than the kind of the node, and given up where there are too many ways.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts, Mask
from solver.domain import EXPECTED_ROOM, Budget, SearchStage
from solver.model.objective import CountedSolution, ObjectiveLevel, Values, objective_levels
from solver.problem.devices import fragmentation
from solver.problem.expected_room import ExpectedRoom
from solver.problem.problem import PodClass, Problem
from solver.search.node_ways import KeptWays, NodeWay, NodeWaySearch, TooManyWaysError
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
        found = _ways(problem)
    except TooManyWaysError:
        return None
    return _Comparison.of(problem, found).best()


@dataclass(slots=True, eq=False)
class _WaysOfClass:
    """
    The ways to serve pods of a class, kind of node after kind.

    `numbers` are by way those in `kept`, `kinds` the positions in `nodes` of the nodes that it can take: of a kind that
    many `sizes` from `starts`, the first of which stands for all.
    """

    pod_class: int
    kept: KeptWays
    numbers: Amounts
    kinds: Amounts
    nodes: Amounts
    starts: Amounts
    sizes: Amounts


@dataclass(slots=True, eq=False)
class _Comparison:
    """
    Compares ways level by level, so that most levels are asked of few of them; the first of equals is the best.

    Nodes of a kind differ in what is lost of the room for expected pods. Each way takes the node that loses least.
    Arrays are by way, those of one class after the other, and end with the choice to place no pod, `_NO_WAY`: `places`
    are positions among the ways of a class, `equals` one number for ways that take the same but for names of devices,
    and `nodes` those that are taken, the first of a kind until it is asked where least is lost.
    """

    problem: Problem
    classes: Sequence[_WaysOfClass]
    of_class: Amounts
    places: Amounts
    equals: Amounts
    nodes: Amounts
    counted: dict[int, CountedSolution] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, classes: Sequence[_WaysOfClass]) -> "_Comparison":
        """List the ways in order."""
        none = np.full(1, _NO_WAY)
        sizes = [len(each.numbers) for each in classes]
        equals, last = list[Amounts](), 0
        for each in classes:
            equals.append(each.kept.totals[each.numbers] + last)
            last += len(each.kept.numbers)
        return cls(
            problem,
            classes,
            np.append(np.repeat(np.arange(len(sizes)), sizes), none),
            np.concatenate([*map(np.arange, sizes), none]),
            np.concatenate([*equals, np.full(1, last)]),
            np.concatenate([*(each.nodes[each.starts[each.kinds]] for each in classes), none]),
        )

    def best(self) -> BestWay:
        """Return the best way, or no way if that is better."""
        left, known = np.arange(_NO_WAY, len(self.nodes) - 1), list[int]()
        for level in objective_levels(self.problem):
            values = self._values(level, left)
            known.append(int(values.max()))
            left = left[values == known[-1]]
        return BestWay(self._solution(int(left[0])), tuple(known))

    def _values(self, level: ObjectiveLevel, ways: Amounts) -> Amounts:
        """Evaluate a level for some ways."""
        if level.name == EXPECTED_ROOM:
            return self._least_lost(ways)
        if not level.is_of_picks:
            return np.array([self._value(level, each) for each in ways.tolist()], dtype=np.int64)
        equals = self.equals[ways]
        values, first = np.zeros((2, int(equals.max()) + 1), dtype=np.int64)
        first[equals[::-1]] = ways[::-1]
        for each in np.flatnonzero(np.bincount(equals)).tolist():
            values[each] = self._value(level, int(first[each]))
        return values[equals]

    def _value(self, level: ObjectiveLevel, way: int) -> int:
        if level.of_uses is not None:
            return level.of_uses(self.problem, [] if way == _NO_WAY else [(int(self.nodes[way]), self._way(way).use)])
        found = self.counted.get(way)
        if found is None:
            solution = self._solution(way)
            uses = [(choice.node, self._way(way).use) for choice in solution.choices]
            found = self.counted[way] = CountedSolution(self.problem, solution, uses)
        return level.evaluate(self.problem, found)

    def _way(self, way: int) -> NodeWay:
        of_class = self.classes[int(self.of_class[way])]
        return of_class.kept.ways[int(of_class.numbers[self.places[way]])]

    def _solution(self, way: int) -> Solution:
        if way == _NO_WAY:
            return Solution()
        pod_class = self.classes[int(self.of_class[way])].pod_class
        return Solution([Choice(pod_class, int(self.nodes[way]), self._way(way).picks)])

    def _least_lost(self, ways: Amounts) -> Amounts:
        """Let each way take the node of which it takes the least expected room, and value it by that."""
        room, values = ExpectedRoom(self.problem), np.zeros(len(ways), dtype=np.int64)
        for index, each in enumerate(self.classes):
            own = np.flatnonzero(self.of_class[ways] == index)
            if len(own):
                places = self.places[ways[own]]
                kinds, numbers = each.kinds[places], each.numbers[places]
                nodes, sizes = each.nodes[_following(each.starts[kinds], each.sizes[kinds])], each.sizes[kinds]
                after = each.kept.room_after(room, numbers.repeat(sizes))
                least, found = room.least_lost(nodes, sizes, after, self.problem.classes[each.pod_class].requests)
                values[own], self.nodes[ways[own]] = -least, found
        self.counted.clear()
        return values


def _is_one_pod(problem: Problem) -> bool:
    """Whether the batch is one pod with devices, and its value depends on the kind of its node alone."""
    families, costs = problem.families, problem.costs
    if len(families) != 1 or families[0][0].size != 1 or not any(each.parts for each in families[0]):
        return False
    depends = any(each.spread_costs or each.affinity_costs for each in (costs.preferences, costs.domains))
    wide = problem.available.wide_state or problem.layout.wide_types
    is_coupled = any(problem.is_coupled(each, by_quotas=False) for each in families[0])  # it shares a quota with nobody
    return not (wide or depends or problem.shared or is_coupled)


def _ways(problem: Problem) -> list[_WaysOfClass]:
    """
    Find the ways to serve the pod on each kind of nodes, by class; raise `TooManyWaysError`.

    So many ways, and pairs of one with a node, may be looked at; ways of a kind are those on its first node.
    """
    params, expects = problem.params, bool(problem.requests.expected)
    left = params.exhaustive_expected_ways if expects else params.exhaustive_ways
    pairs, found = params.exhaustive_expected_pairs, list[_WaysOfClass]()
    search = NodeWaySearch(problem, params.exhaustive_steps)
    for pod_class in problem.classes:
        kept = KeptWays.of(problem, pod_class)
        nodes, starts, sizes = _nodes(problem, pod_class, kept)
        kinds = problem.available.kind_of[nodes[starts]]
        first, count = kept.first[kinds], kept.count[kinds]
        left -= int(count[count > 0].sum())
        for kind in np.flatnonzero(count < 0).tolist():
            if left < 0:
                raise TooManyWaysError
            numbers = search.ways(pod_class, int(nodes[starts[kind]]), kept, left)
            first[kind], count[kind] = numbers.start, len(numbers)
            left -= len(numbers)
        pairs -= int((count * sizes).sum()) if expects else 0
        if left < 0 or pairs < 0:
            raise TooManyWaysError
        of_kinds = np.repeat(np.arange(len(count)), count)
        ways = _WaysOfClass(pod_class.index, kept, _following(first, count), of_kinds, nodes, starts, sizes)
        if pod_class.index in problem.rules.quotas.of_class:
            _keep_quotas(problem, ways)
        found.append(ways)
    return found


def _following(first: Amounts, count: Amounts) -> Amounts:
    """Return so many numbers from each first one, one after the other."""
    found: Amounts = np.arange(int(count.sum())) + np.repeat(first - np.cumsum(count) + count, count)
    return found


def _keep_quotas(problem: Problem, ways: _WaysOfClass) -> None:
    """Leave out the ways that exceed a quota."""
    nodes = ways.nodes[ways.starts[ways.kinds]].tolist()
    kept = [
        keeps_quotas(problem, Choice(ways.pod_class, node, ways.kept.ways[number].picks))
        for node, number in zip(nodes, ways.numbers.tolist(), strict=True)
    ]
    is_kept = np.array(kept, dtype=np.bool_)
    ways.numbers, ways.kinds = ways.numbers[is_kept], ways.kinds[is_kept]


def _nodes(problem: Problem, pod_class: PodClass, kept: KeptWays) -> tuple[Amounts, Amounts, Amounts]:
    """
    Return the nodes that the pod may use and that have room for it, kind after kind; where each begins, and its nodes.

    Where pods are expected, of nodes of a kind that have as much left the first stands for all.
    """
    available, expects = problem.available, bool(problem.requests.expected)
    nodes = np.flatnonzero(pod_class.verdicts.allowed & available.room.fits(pod_class.requests))
    nodes = nodes[kept.count[available.kind_of[nodes]] != 0]
    told_apart = [available.kind_of, *([ExpectedRoom(problem).counts().equals] if expects else ())]
    numbers = [2 * each[nodes] + available.is_unused[nodes] for each in told_apart]
    for column in _columns(problem, nodes):
        count = int(column.max(initial=0)) + 1
        numbers = [np.unique(each * count + column, return_inverse=True)[1] for each in numbers]
    codes = numbers[0]
    if expects:
        is_first = _are_first(numbers[1])
        nodes, codes = nodes[is_first], codes[is_first]
    order = np.argsort(codes, kind="stable")
    nodes, codes = nodes[order], codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    sizes = np.diff(starts, append=len(nodes))
    by_first = np.argsort(nodes[starts])
    starts, sizes = starts[by_first], sizes[by_first]
    return nodes[_following(starts, sizes)], np.cumsum(sizes) - sizes, sizes


def _are_first(numbers: Amounts) -> Mask:
    """Return which numbers are the first of equals."""
    places = np.arange(len(numbers))
    first = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.int64)
    first[numbers[::-1]] = places[::-1]
    found: Mask = first[numbers] == places
    return found


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
