"""
The ways to serve a pod on one node, for the exhaustive search; kept as long as the layout.

What a way takes is counted as in the greedy, in a ledger of the node. Shareable devices of a node that look the same
and have the same left are one choice: of ways that differ only in which of them is taken, the first stands for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts, Floats, Mask
from solver.greedy.device_fit import Attempt, Counts, Singly
from solver.problem.devices.layout import DeviceType, NodeGroup, State, type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.expected_room import ExpectedRoom, ExpectedTable
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.requests.component import Component, Line, Option
from solver.problem.requests.remaining_options import are_complete
from solver.solution import NodeUse, Pick, ServedComponents, use_of

_MOST_KEPT: Final = 40_000
"""Kinds of nodes, ways, and descriptions of what ways take, in one layout; a decision may add to them."""
_NOTHING: Final = np.zeros(0, dtype=np.int64)

Picks = tuple[tuple[Pick, ...], ...]
"""Picks for every part of a pod."""


class TooManyWaysError(Exception):
    """There are more ways than may be looked at."""


class NodeWay(NamedTuple):
    """
    A way to serve all parts of a pod on a node of a group, and what it leaves of the node's devices.

    `use` is what it takes: one object for equal picks on nodes of a group.
    """

    picks: Picks
    after: State
    use: NodeUse
    group: int


_Looks = tuple[tuple[int, tuple[int, ...]], ...]
"""For each type of a group the first that looks the same while unused, and the budgets of its own."""


@dataclass(slots=True, eq=False)
class KeptWays:
    """
    What a layout keeps of the ways to serve pods with the same components: from one pod to the next few nodes change.

    Ways have numbers: those of `by_state` for groups and states. `first` and `count` give them by the numbers that
    `kinds` gives groups and states; -1 where they are not known. `totals` is one number for ways that take the same but
    for the names of devices; `room` what a way leaves for expected pods of one table, where `has_room` says so.
    """

    ways: list[NodeWay] = field(default_factory=list)
    by_state: dict[tuple[int, State], range] = field(default_factory=dict)
    uses: dict[tuple[int, Picks], NodeUse] = field(default_factory=dict)
    looks: dict[int, _Looks] = field(default_factory=dict)
    kinds: Sequence[tuple[int, State]] = ()
    first: Amounts = field(default_factory=lambda: _NOTHING)
    count: Amounts = field(default_factory=lambda: _NOTHING)
    totals: Amounts = field(default_factory=lambda: _NOTHING)
    numbers: dict[object, int] = field(default_factory=dict)
    """Numbers for what ways take, by all that does not name a device."""
    table: ExpectedTable | None = None
    room: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    has_room: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @classmethod
    def of(cls, problem: Problem, pod_class: PodClass) -> "KeptWays":
        """Return what the layout keeps for the components of a pod."""
        components = problem.requests.components
        asked = tuple((components[each.component], each.copies) for each in pod_class.parts)
        served = problem.layout.served
        if sum([len(each.by_state) + len(each.ways) + len(each.uses) for each in served.values()]) >= _MOST_KEPT:
            served.clear()
        found: KeptWays | None = served.get(asked)
        if found is None:
            found = served[asked] = cls()
        found._number(problem.available.kinds)
        return found

    def _number(self, kinds: Sequence[tuple[int, State]]) -> None:
        """Go on with the numbers of a problem; more kinds may have been added to them."""
        if self.kinds is not kinds:
            self.kinds, self.first, self.count = kinds, _NOTHING, _NOTHING
        missing = 2 * len(kinds) if len(self.count) < len(kinds) else 0
        if missing:
            self.first, self.count = (np.append(each, np.full(missing, -1)) for each in (self.first, self.count))

    def add(self, found: Sequence[NodeWay]) -> range:
        """Give numbers to ways."""
        start, numbers = len(self.ways), self.numbers
        self.ways += found
        if len(self.totals) < len(self.ways):
            self.totals = np.append(self.totals, np.zeros(2 * len(self.ways) - start, dtype=np.int64))
        self.totals[start : len(self.ways)] = [numbers.setdefault(each.use.totals, len(numbers)) for each in found]
        return range(start, len(self.ways))

    def note(self, number: int, found: range) -> None:
        """Keep which ways are those of a kind."""
        self.first[number], self.count[number] = found.start, len(found)

    def room_after(self, expected: ExpectedRoom, numbers: Amounts) -> Floats:
        """Count by expected kind (row) and way the pods that devices have room for then."""
        if self.table is not expected.table:
            self.table = expected.table
            self.room, self.has_room = np.zeros((0, len(self.table.kinds))), np.zeros(0, dtype=np.bool_)
        if len(self.has_room) < len(self.ways):
            missing = 2 * len(self.ways) - len(self.has_room)
            self.room = np.append(self.room, np.zeros((missing, self.room.shape[1])), axis=0)
            self.has_room = np.append(self.has_room, np.zeros(missing, dtype=np.bool_))
        groups = expected.problem.layout.groups
        for number in numbers[~self.has_room[numbers]].tolist():
            if not self.has_room[number]:
                way = self.ways[number]
                self.room[number], self.has_room[number] = expected.by_devices(groups[way.group], way.after), True
        return np.ascontiguousarray(self.room.take(numbers, axis=0).T)


@dataclass(slots=True, eq=False)
class NodeWaySearch:
    """Finds the ways on nodes: at most `left` on one, in so many `steps` on all."""

    problem: Problem
    steps: int

    def ways(self, pod_class: PodClass, node: int, kept: KeptWays, most: int) -> range:
        """Return the numbers of the ways to serve a pod on a node; raise `TooManyWaysError` for more than `most`."""
        number = int(self.problem.available.kind_of[node])
        found = kept.by_state.get(self.problem.available.kinds[number])
        if found is None:
            return self._found(pod_class, node, kept, most)
        kept.note(number, found)
        return found

    def _found(self, pod_class: PodClass, node: int, kept: KeptWays, most: int) -> range:
        problem, group = self.problem, self.problem.group(node)
        is_complete = all(
            are_complete(problem.requests.components[each.component], problem.options(each.component, group))
            for each in pod_class.parts
        )
        uses = kept.uses if is_complete else {}
        listed = islice(self._enumerated(pod_class.parts, node, kept), most + 1)
        ways = [self._way(pod_class.parts, node, uses, each) for each in listed]
        if len(ways) > most:
            raise TooManyWaysError
        found = kept.add(ways)
        if is_complete and len(found) <= problem.params.exhaustive_ways:
            kept.by_state[group.index, problem.available.states[node]] = found
            kept.note(int(problem.available.kind_of[node]), found)
        return found

    def _way(
        self, parts: tuple[Part, ...], node: int, uses: dict[tuple[int, Picks], NodeUse], found: tuple[Picks, State]
    ) -> NodeWay:
        picks, after = found
        group = self.problem.group(node)
        use = uses.get((group.index, picks))
        if use is None:
            use = uses[group.index, picks] = use_of(self.problem, ServedComponents(node, group, parts, picks))
        return NodeWay(picks, after, use, group.index)

    def _enumerated(self, parts: tuple[Part, ...], node: int, kept: KeptWays) -> Iterator[tuple[Picks, State]]:
        problem, group, steps = self.problem, self.problem.group(node), self.steps
        attempt = Attempt(problem, group, NodeLedger.of(problem.available.states[node]), steps=steps, work=steps)
        copies = [each for each, part in enumerate(parts) for _ in range(part.copies)]
        looks = kept.looks.get(group.index)
        if looks is None:
            looks = kept.looks[group.index] = _looks(problem, group)
        for picks in _Enumeration(attempt, looks).picks([parts[each].component for each in copies]):
            of_parts = (
                tuple(pick for pick, at in zip(picks, copies, strict=True) if at == each) for each in range(len(parts))
            )
            yield tuple(of_parts), tuple(attempt.ledger.local)
        self.steps = min(attempt.steps, attempt.work)
        if self.steps < 0:
            raise TooManyWaysError


def _looks(problem: Problem, group: NodeGroup) -> _Looks:
    first, found = dict[object, int](), []
    for position, (key, _) in enumerate(problem.layout.keys[group.index].types):
        device = group.types[position]
        budgets = (device.gate, device.fresh, *device.capacities.values()) if device.is_shareable else (device.gate,)
        found.append((first.setdefault(key, position), budgets))
    return tuple(found)


class _Choice(NamedTuple):
    """A type for a line, and the one before it that looks the same and has as much left, by position; -1 for none."""

    type: int
    device: DeviceType
    equal: int


@dataclass(slots=True, eq=False)
class _Enumeration:
    """All ways on one node; devices are taken while a way is looked at."""

    attempt: Attempt
    looks: _Looks

    def picks(self, copies: list[int]) -> Iterator[tuple[Pick, ...]]:
        """Go through the ways to serve components, each a copy."""
        if not copies:
            yield ()
            return
        problem, ledger = self.attempt.problem, self.attempt.ledger
        component = problem.requests.components[copies[0]]
        for index, option in enumerate(problem.options(copies[0], self.attempt.group)):
            before = ledger.checkpoint()
            for counts in self._lines(component, option):
                yield from ((Pick(index, counts), *rest) for rest in self.picks(copies[1:]))
            ledger.rollback(before)

    def _lines(self, component: Component, option: Option) -> Iterator[Counts]:
        """Go through the devices that the lines of an option can have."""
        if any(line.takes_each or not line.needed for line in option.lines):
            raise TooManyWaysError
        if component.needs_identity:
            return Singly(self.attempt, component, option).picks()
        return self._rest_of_lines(option.lines)

    def _rest_of_lines(self, lines: tuple[Line, ...]) -> Iterator[Counts]:
        if not lines:
            yield ()
            return
        for counts in self._line(lines[0], self._choices(lines[0]), ()):
            for rest in self._rest_of_lines(lines[1:]):
                yield (counts, *rest)

    def _choices(self, line: Line) -> list[_Choice]:
        """Return the types of which a device is left for a line."""
        attempt, last, found = self.attempt, dict[tuple[int, ...], int](), list[_Choice]()
        attempt.work -= len(line.types)
        for each in line.types:
            device = type_at(attempt.problem.layout, attempt.group, each)
            if attempt.ledger.most(device, line.demand):
                first, budgets = self.looks[each]
                look = (first, *[attempt.ledger.local[budget] for budget in budgets])
                found.append(_Choice(each, device, last.get(look, -1)))
                last[look] = len(found) - 1
        return found

    def _line(
        self, line: Line, choices: list[_Choice], counts: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """
        Go through the numbers of devices of each type that make up what a line needs; the first types have `counts`.

        Of types that are equal, one takes at most what the one before it takes.
        """
        attempt, needed = self.attempt, line.needed - sum(counts)
        if not needed:
            yield tuple([(each.type, count) for each, count in zip(choices, counts, strict=False) if count])
            return
        for each in choices[len(counts) :]:
            if not attempt.step():
                return
            most = needed if each.equal < 0 else min(needed, counts[each.equal])
            for count in range(min(attempt.ledger.most(each.device, line.demand), most) if most else 0, 0, -1):
                before = attempt.ledger.checkpoint()
                attempt.ledger.take(each.device, line.demand, count)
                yield from self._line(line, choices, (*counts, count))
                attempt.ledger.rollback(before)
            counts = (*counts, 0)
