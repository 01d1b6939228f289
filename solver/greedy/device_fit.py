"""
Serves components on one node with the devices that are left there: best fit, with backtracking over options.

For the lines of an option it takes the least valuable devices first. A node's `Condition` is its group, its budgets
left, the cluster-wide budgets left and whether no device of it is in use. Equal conditions have equal answers, which
`FitCache` keeps: a batch of thousands of pods on thousands of nodes asks a few dozen different questions.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import ConstraintKind
from solver.problem.devices.layout import DeviceType, NodeGroup, State, type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.problem import Part, Problem
from solver.problem.requests.component import Component, Line, Option
from solver.problem.requests.distinct_values import LineValues, may_be_served
from solver.problem.requests.remaining_options import are_complete
from solver.solution import Pick, SharedChoice

Counts = tuple[tuple[tuple[int, int], ...], ...]
"""Per line, pairs of type and number of devices."""


_MOST_KEPT: Final = 10_000
"""Answers that are kept from one decision to the next."""


@dataclass(slots=True, eq=False)
class Attempt:
    """
    One search on one node: what is left there, and the steps and looks at types that it has left.

    `rank` is that of the options taken, once it has succeeded.
    """

    problem: Problem
    group: NodeGroup
    ledger: NodeLedger
    steps: int
    work: int
    rank: int = 0

    def step(self) -> bool:
        """Begin one step more, unless there were enough of them."""
        self.steps -= 1
        return self.steps >= 0 and self.work >= 0


def _pick_lines(attempt: Attempt, component: Component, option: Option) -> Counts | None:
    """Take devices for every line of an option, or give None (what was taken is the caller's to restore)."""
    if component.needs_identity:
        return next(Singly(attempt, component, option).picks(), None)
    return _pick_by_type(attempt, option)


def _pick_by_type(attempt: Attempt, option: Option) -> Counts | None:
    """Take counts of types, for lines with the fewest types to choose from first."""
    taken: dict[int, tuple[tuple[int, int], ...]] = {}
    for index in sorted(range(len(option.lines)), key=lambda i: (len(option.lines[i].types), i)):
        counts = _pick_line(attempt, option.lines[index])
        if counts is None:
            return None
        taken[index] = counts
    return tuple(taken[index] for index in range(len(option.lines)))


def _pick_line(attempt: Attempt, line: Line) -> tuple[tuple[int, int], ...] | None:
    layout = attempt.problem.layout
    devices = {each: type_at(layout, attempt.group, each) for each in line.types}
    counts: list[tuple[int, int]] = []
    needed = line.needed
    attempt.work -= len(line.types)
    for each in sorted(line.types, key=lambda each: _eagerness(attempt, devices[each], each, line)):
        most = attempt.ledger.most(devices[each], line.demand)
        if line.takes_each and most < devices[each].total:
            return None
        count = min(most, needed)
        if count > 0:
            attempt.ledger.take(devices[each], line.demand, count)
            counts.append((each, count))
            needed -= count
        if needed == 0:
            return tuple(counts)
    return None


def _eagerness(attempt: Attempt, device: DeviceType, reference: int, line: Line) -> tuple[int, ...]:
    """
    Which type to take first: no suspect one, the nearest, a shared one in use, the least valuable, the least demanded.

    Of those the fullest, then the one with the fewest left that are enough, else the one with the most, so that others
    stay whole.
    """
    ledger = attempt.ledger
    is_fresh = int(ledger.is_fresh(device))
    remaining = sum(ledger.left(budget) for budget in device.capacities.values())
    most = 0 if device.is_shareable else ledger.most(device, line.demand)
    fit = (0, most) if most >= line.needed else (1, -most)
    better = int(device.is_suspect), device.distance, is_fresh, device.value
    return (*better, len(device.takes), remaining, *fit, abs(reference))


@dataclass(slots=True, eq=False)
class Singly:
    """Pick device by device where rules speak of single ones: distinctAttribute, one result per device."""

    attempt: Attempt
    component: Component
    option: Option
    chosen: list[list[int]] = field(default_factory=list)
    used: Counter[int] = field(default_factory=Counter)
    values: defaultdict[int, set[object]] = field(default_factory=lambda: defaultdict(set))
    distinct: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def picks(self) -> Iterator[Counts]:
        """Go through the ways to serve all lines, as long as there are steps left; each is taken while it is used."""
        left = LineValues(self.attempt.group, self.attempt.problem.layout, self._is_left)
        if not may_be_served(self.component, self.option, left):
            return
        self.chosen = [[] for _ in self.option.lines]
        order = sorted(range(len(self.option.lines)), key=lambda i: (len(self.option.lines[i].types), i))
        slots = [index for index in order for _ in range(self.option.lines[index].needed)]
        for _ in self._filled(slots):
            yield tuple(tuple(Counter(types).items()) for types in self.chosen)

    def _filled(self, slots: list[int]) -> Iterator[None]:
        if not slots:
            yield
            return
        line, chosen = self.option.lines[slots[0]], self.chosen[slots[0]]
        for each in line.types:
            device = type_at(self.attempt.problem.layout, self.attempt.group, each)
            # Types of one line are taken in order, so that no set of devices is tried twice.
            if (chosen and each < chosen[-1]) or not self._may_use(slots[0], each, device):
                continue
            if not self.attempt.step():
                return
            before, values = self.attempt.ledger.checkpoint(), {key: set(known) for key, known in self.values.items()}
            self._use(slots[0], each, device)
            yield from self._filled(slots[1:])
            chosen.pop()
            self.used[each] -= 1
            self.values = defaultdict(set, values)
            self.attempt.ledger.rollback(before)

    def _is_left(self, each: int, demand: int) -> bool:
        self.attempt.work -= 1
        device = type_at(self.attempt.problem.layout, self.attempt.group, each)
        return self.attempt.ledger.most(device, demand) > 0

    def _may_use(self, index: int, each: int, device: DeviceType) -> bool:
        line = self.option.lines[index]
        self.attempt.work -= 1
        if self.attempt.ledger.most(device, line.demand) < 1:
            return False
        if self.chosen[index].count(each) >= device.total if device.is_shareable else self.used[each] >= device.total:
            return False
        return all(
            self.values[number].isdisjoint(values) for number, values in self._distinct_values(line.request, device)
        )

    def _use(self, index: int, each: int, device: DeviceType) -> None:
        line = self.option.lines[index]
        self.attempt.ledger.take(device, line.demand, 1)
        self.chosen[index].append(each)
        self.used[each] += 1
        for number, values in self._distinct_values(line.request, device):
            self.values[number].update(values)

    def _distinct_values(self, request: int, device: DeviceType) -> list[tuple[int, tuple[object, ...]]]:
        """Values that no other device of a distinctAttribute may have, by the constraint's number."""
        if request not in self.distinct:
            self.distinct[request] = self._links(request)
        return [(number, device.attributes[position]) for number, position in self.distinct[request]]

    def _links(self, request: int) -> list[tuple[int, int]]:
        """Return the distinctAttributes of a request: by number, with the position of the attribute."""
        attributes, alternative = self.attempt.problem.layout.attributes, self.option.alternatives[request]
        return [
            (number, attributes.index(attribute))
            for number, link in enumerate(self.component.links)
            if link.kind is ConstraintKind.DISTINCT and (attribute := link.compared(request, alternative)) is not None
        ]


class Condition(NamedTuple):
    """Everything about a node that decides how components can be served there."""

    group: int
    state: State
    wide: State
    is_unused: bool
    quota: State = ()
    """What quotas leave to the pod, no more than it can count; empty where none binds it."""


class Cost(NamedTuple):
    """What serving costs, in the order of the policy's levels; smaller is better."""

    rank: int
    suspects: int
    distance: int
    opened_nodes: int
    opened_devices: int
    value: int
    leftover: int


class DeviceFit(NamedTuple):
    """Components served: the picks of every part, the condition afterwards, and the cost."""

    picks: tuple[tuple[Pick, ...], ...]
    after: Condition
    cost: Cost


def serve(problem: Problem, parts: tuple[Part, ...], condition: Condition) -> DeviceFit | None:
    """Serve all copies of all parts on a node in some condition, or None where no way was found."""
    group = problem.layout.groups[condition.group]
    if not all(problem.options(part.component, group) for part in parts):
        return None
    steps, work = problem.params.greedy_options, problem.params.greedy_device_types
    ledger = NodeLedger.of(condition.state, condition.wide, condition.quota)
    attempt = Attempt(problem, group, ledger, steps=steps, work=work)
    copies = [
        (index, _Copy(problem.requests.components[part.component], problem.options(part.component, group)))
        for index, part in enumerate(parts)
        for _ in range(part.copies)
    ]
    order = sorted(range(len(copies)), key=lambda i: (*_difficulty(copies[i][1]), i))
    found: dict[int, Pick] = {}
    if not _serve_rest(attempt, [(position, copies[position][1]) for position in order], found):
        return None
    picks: list[list[Pick]] = [[] for _ in parts]
    for position, (index, _) in enumerate(copies):
        picks[index].append(found[position])
    local = tuple(ledger.local)
    used = local != condition.state
    is_unused = condition.is_unused and not used
    after = Condition(condition.group, local, tuple(ledger.wide), is_unused, tuple(ledger.quota))
    opened_nodes = int(condition.is_unused and used)
    chosen = attempt.rank, ledger.suspects, ledger.distance
    cost = Cost(*chosen, opened_nodes, ledger.opened, ledger.value, _leftover(group, local))
    return DeviceFit(tuple(tuple(each) for each in picks), after, cost)


class _Copy(NamedTuple):
    """One copy of a component and its options on the node."""

    component: Component
    options: tuple[Option, ...]


def _difficulty(copy: _Copy) -> tuple[bool, int]:
    """Components without a choice go first, and large ones before small ones."""
    return len(copy.options) > 1, -max((line.needed for option in copy.options for line in option.lines), default=0)


def _leftover(group: NodeGroup, local: State) -> int:
    return sum(local[device.gate] * device.value for device in group.types if not device.is_shareable)


def _serve_rest(attempt: Attempt, rest: list[tuple[int, _Copy]], found: dict[int, Pick]) -> bool:
    """Serve the copies in order, by depth-first search; a choice that fails gives back all that it took."""
    if not rest:
        return True
    (position, (component, options)), later = rest[0], rest[1:]
    for index in _by_preference(attempt, options):
        if not attempt.step():
            return False
        before = attempt.ledger.checkpoint()
        lines = _pick_lines(attempt, component, options[index])
        if lines is not None:
            found[position] = Pick(index, lines)
            if _serve_rest(attempt, later, found):
                attempt.rank += options[index].rank
                return True
        attempt.ledger.rollback(before)
    return False


def _by_preference(attempt: Attempt, options: tuple[Option, ...]) -> Iterator[int]:
    """
    Best rank first, then as the requests stand, then the scarcest devices, so that larger groups stay whole.

    Options come in the first two orders; what is left is counted for those that are equal in both, and only when it is
    their turn: of thousands of options the first few mostly do.
    """
    for _, equal in groupby(range(len(options)), key=lambda index: options[index].alternatives):
        indices = list(equal)
        if len(indices) > 1:
            least = attempt.work // 2  # of many options some are compared, and work is left to try them
            supplies = {index: _supply(attempt, options[index]) for index in indices if attempt.work > least}
            indices.sort(key=lambda index: (supplies.get(index, math.inf), index))
        yield from indices


def _supply(attempt: Attempt, option: Option) -> int:
    """Return what the devices are worth that an option could take."""
    types = {(each, line.demand) for line in option.lines for each in line.types}
    attempt.work -= len(types)
    devices = [(type_at(attempt.problem.layout, attempt.group, each), demand) for each, demand in types]
    return sum(attempt.ledger.most(device, demand) * device.value for device, demand in devices)


_Answers = dict[Condition, DeviceFit | None]


@dataclass(slots=True, eq=False)
class FitCache:
    """
    Answers of `serve`, by what was asked.

    They are kept with the layout, since few nodes change from one decision to the next. Those whose options depend on
    what all nodes have left are kept in `_own`.
    """

    problem: Problem
    _answers: dict[tuple[Part, ...], _Answers] = field(default_factory=dict)
    _own: dict[tuple[tuple[Part, ...], Condition], DeviceFit | None] = field(default_factory=dict)

    def serve(self, parts: tuple[Part, ...], condition: Condition) -> DeviceFit | None:
        """Serve, or remember how it went."""
        known = self._answers.get(parts)
        if known is None:
            known = self._answers[parts] = self._kept(parts)
        if condition in known:
            return known[condition]
        if (parts, condition) not in self._own:
            found, group = serve(self.problem, parts, condition), self.problem.layout.groups[condition.group]
            if all(self._has_all_options(part, group) for part in parts):
                known[condition] = found
            else:
                self._own[parts, condition] = found
            return found
        return self._own[parts, condition]

    def _has_all_options(self, part: Part, group: NodeGroup) -> bool:
        component = self.problem.requests.components[part.component]
        return are_complete(component, self.problem.options(part.component, group))

    def _kept(self, parts: tuple[Part, ...]) -> _Answers:
        """Return the answers of earlier decisions for the same components."""
        problem, layout = self.problem, self.problem.layout
        asked = tuple((problem.requests.components[part.component], part.copies) for part in parts)
        if sum(map(len, layout.fits.values())) > _MOST_KEPT:
            layout.fits.clear()
        key = (asked, problem.params.greedy_options, problem.params.greedy_device_types)
        known: _Answers = layout.fits.setdefault(key, {})
        return known


def reach(problem: Problem, choice: SharedChoice) -> Mask:
    """Nodes from which a shared claim can be used once allocated as chosen; only its own where they are no site."""
    layout, every = problem.layout, frozenset(range(problem.node_count))
    found, here = every, frozenset((choice.node,))
    for reference in (each for copies in choice.picks for pick in copies for line in pick.lines for each, _ in line):
        wide = -reference - 1
        if reference >= 0 or any(problem.inventory.records[i].device.binds_to_node for i in layout.wide_members[wide]):
            found = here
            break
        found &= every if (nodes := layout.wide_nodes[wide]) is None else nodes
    mask = np.zeros(problem.node_count, dtype=np.bool_)
    mask[list(found if found == every or found in layout.sites else here)] = True
    return mask
