"""
Serve some components on one node with what is left there: best fit, with backtracking over options.

A node's condition is a description (its group), the budgets left, the cluster-wide budgets left and whether the
node is whole. Equal conditions give equal answers, so answers are kept: a batch of thousands of pods on
thousands of nodes asks a few dozen different questions.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.problem.layout import GLOBAL, DeviceType, Group, type_at
from solver.problem.option import Line, Option
from solver.problem.problem import Part, Problem, State
from solver.solution import Pick

_MOST_STEPS: Final = 400
"""Options tried for one pod on one node before giving up; the exact model has no such limit."""


class Condition(NamedTuple):
    """Everything about a node that decides how components can be served there."""

    group: int
    state: State
    wide: State
    is_whole: bool


class Cost(NamedTuple):
    """What serving costs, in the order of the policy's levels; smaller is better."""

    rank: int
    opened_nodes: int
    opened_devices: int
    value: int
    leftover: int


class Served(NamedTuple):
    """Components served: the picks of every part, the condition afterwards, and the cost."""

    picks: tuple[tuple[Pick, ...], ...]
    after: Condition
    cost: Cost


@dataclass(slots=True, eq=False)
class _Attempt:
    """One search: budgets left, and steps left."""

    problem: Problem
    group: Group
    local: list[int]
    wide: list[int]
    steps: int = _MOST_STEPS
    rank: int = 0
    opened: int = 0
    value: int = 0

    def left(self, budget: int) -> int:
        return self.wide[budget - GLOBAL] if budget >= GLOBAL else self.local[budget]

    def take(self, budget: int, amount: int) -> None:
        if budget >= GLOBAL:
            self.wide[budget - GLOBAL] -= amount
        else:
            self.local[budget] -= amount

    def most(self, device: DeviceType, demand: int) -> int:
        """How many devices of a type are left for a demand."""
        takes = device.takes[demand]
        if not takes:
            return device.total
        most = min(self.left(budget) // amount for budget, amount in takes)
        if device.fresh >= 0 and self.left(device.fresh) > 0 and device.opens:
            most = min(most, *(self.left(budget) // amount for budget, amount in device.opens if amount))
        return min(most, device.total)

    def use(self, device: DeviceType, demand: int, count: int) -> None:
        takes = device.takes[demand]
        for budget, amount in takes:
            self.take(budget, amount * count)
        if takes and device.fresh >= 0 and self.left(device.fresh) > 0:
            self.take(device.fresh, 1)
            self.opened += 1
            for budget, amount in device.opens:
                self.take(budget, amount)
        if takes:
            self.value += device.value * count

    def save(self) -> tuple[list[int], list[int], int, int, int]:
        return self.local[:], self.wide[:], self.rank, self.opened, self.value

    def restore(self, saved: tuple[list[int], list[int], int, int, int]) -> None:
        local, wide, self.rank, self.opened, self.value = saved
        self.local[:], self.wide[:] = local, wide


def serve(problem: Problem, parts: tuple[Part, ...], condition: Condition) -> Served | None:
    """Serve all copies of all parts on a node in some condition, or None where no way was found."""
    group = problem.layout.groups[condition.group]
    attempt = _Attempt(problem, group, list(condition.state), list(condition.wide))
    copies = [
        (index, problem.options(part.component, group)) for index, part in enumerate(parts) for _ in range(part.copies)
    ]
    if any(not options for _, options in copies):
        return None
    order = sorted(range(len(copies)), key=lambda i: (len(copies[i][1]) > 1, -_largest(copies[i][1]), i))
    found: dict[int, Pick] = {}
    if not _serve_rest(attempt, [(position, copies[position][1]) for position in order], found):
        return None
    picks: list[list[Pick]] = [[] for _ in parts]
    for position, (index, _) in enumerate(copies):
        picks[index].append(found[position])
    local = tuple(attempt.local)
    used = local != condition.state
    after = Condition(condition.group, local, tuple(attempt.wide), condition.is_whole and not used)
    cost = Cost(
        attempt.rank, int(condition.is_whole and used), attempt.opened, attempt.value, _leftover(group, attempt.local)
    )
    return Served(tuple(tuple(each) for each in picks), after, cost)


def _largest(options: tuple[Option, ...]) -> int:
    return max(line.needed for option in options for line in option.lines) if options[0].lines else 0


def _leftover(group: Group, local: list[int]) -> int:
    return sum(local[device.gate] * device.value for device in group.types if not device.is_shareable)


def _serve_rest(attempt: _Attempt, rest: list[tuple[int, tuple[Option, ...]]], found: dict[int, Pick]) -> bool:
    if not rest:
        return True
    (position, options), later = rest[0], rest[1:]
    for index in _by_preference(attempt, options):
        attempt.steps -= 1
        if attempt.steps < 0:
            return False
        saved = attempt.save()
        lines = _take_lines(attempt, options[index])
        if lines is not None:
            attempt.rank += options[index].rank
            found[position] = Pick(index, lines)
            if _serve_rest(attempt, later, found):
                return True
        attempt.restore(saved)
    return False


def _by_preference(attempt: _Attempt, options: tuple[Option, ...]) -> list[int]:
    """Best rank first; among equals the one whose devices are scarcest, so that larger groups stay whole."""
    if len(options) == 1:
        return [0]

    def supply(option: Option) -> int:
        types = {(each, line.demand) for line in option.lines for each in line.types}
        return sum(
            attempt.most(device, demand) * device.value
            for each, demand in types
            if (device := type_at(attempt.problem.layout, attempt.group, each))
        )

    return sorted(range(len(options)), key=lambda i: (options[i].rank, supply(options[i]), i))


def _take_lines(attempt: _Attempt, option: Option) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Take devices for every line, those with the fewest types to choose from first."""
    taken: dict[int, tuple[tuple[int, int], ...]] = {}
    for index in sorted(range(len(option.lines)), key=lambda i: (len(option.lines[i].types), i)):
        counts = _take_line(attempt, option.lines[index])
        if counts is None:
            return None
        taken[index] = counts
    return tuple(taken[index] for index in range(len(option.lines)))


def _take_line(attempt: _Attempt, line: Line) -> tuple[tuple[int, int], ...] | None:
    layout = attempt.problem.layout
    devices = {each: type_at(layout, attempt.group, each) for each in line.types}
    counts: list[tuple[int, int]] = []
    needed = line.needed
    for each in sorted(line.types, key=lambda each: _eagerness(attempt, devices[each], each)):
        most = attempt.most(devices[each], line.demand)
        if line.takes_each and most < devices[each].total:
            return None
        count = min(most, needed)
        if count > 0:
            attempt.use(devices[each], line.demand, count)
            counts.append((each, count))
            needed -= count
        if needed == 0:
            return tuple(counts)
    return None


def _eagerness(attempt: _Attempt, device: DeviceType, reference: int) -> tuple[int, int, int, int, int]:
    """Which type to take first: the least valuable, the least demanded, a shared one in use, the fullest."""
    is_fresh = int(device.fresh >= 0 and attempt.left(device.fresh) > 0)
    remaining = sum(attempt.left(budget) for budget in device.capacities.values())
    return (is_fresh, device.value, len(device.takes), remaining, abs(reference))


@dataclass(slots=True, eq=False)
class Kept:
    """Answers of `serve`, by what was asked."""

    problem: Problem
    answers: dict[tuple[tuple[Part, ...], Condition], Served | None] = field(default_factory=dict)

    def serve(self, parts: tuple[Part, ...], condition: Condition) -> Served | None:
        """Serve, or remember how it went."""
        key = (parts, condition)
        if key not in self.answers:
            self.answers[key] = serve(self.problem, parts, condition)
        return self.answers[key]
