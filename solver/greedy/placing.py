"""
Serve some components on one node with what is left there: best fit, with backtracking over options.

A node's condition is a description (its group), the budgets left, the cluster-wide budgets left and whether the
node is whole. Equal conditions give equal answers, so answers are kept: a batch of thousands of pods on
thousands of nodes asks a few dozen different questions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

from solver.greedy.picking import Attempt, pick_lines
from solver.problem.devices.inventory import Mask
from solver.problem.devices.layout import Group, type_at
from solver.problem.problem import Part, Problem, State
from solver.problem.requests.component import Component
from solver.problem.requests.option import Option
from solver.solution import Pick, SharedChoice


class Condition(NamedTuple):
    """Everything about a node that decides how components can be served there."""

    group: int
    state: State
    wide: State
    is_whole: bool


class Cost(NamedTuple):
    """What serving costs, in the order of the policy's levels; smaller is better."""

    rank: int
    suspects: int
    opened_nodes: int
    opened_devices: int
    value: int
    leftover: int


class Served(NamedTuple):
    """Components served: the picks of every part, the condition afterwards, and the cost."""

    picks: tuple[tuple[Pick, ...], ...]
    after: Condition
    cost: Cost


def serve(problem: Problem, parts: tuple[Part, ...], condition: Condition) -> Served | None:
    """Serve all copies of all parts on a node in some condition, or None where no way was found."""
    group = problem.layout.groups[condition.group]
    if not all(problem.options(part.component, group) for part in parts):
        return None
    attempt = Attempt(problem, group, list(condition.state), list(condition.wide))
    copies = [
        (index, _Copy(problem.components[part.component], problem.options(part.component, group)))
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
    local = tuple(attempt.local)
    used = local != condition.state
    after = Condition(condition.group, local, tuple(attempt.wide), condition.is_whole and not used)
    cost = Cost(
        attempt.rank,
        attempt.suspects,
        int(condition.is_whole and used),
        attempt.opened,
        attempt.value,
        _leftover(group, attempt.local),
    )
    return Served(tuple(tuple(each) for each in picks), after, cost)


class _Copy(NamedTuple):
    """One copy of a component and its options on the node."""

    component: Component
    options: tuple[Option, ...]


def _difficulty(copy: _Copy) -> tuple[bool, int]:
    """Components without a choice go first, and large ones before small ones."""
    return len(copy.options) > 1, -max((line.needed for option in copy.options for line in option.lines), default=0)


def _leftover(group: Group, local: list[int]) -> int:
    return sum(local[device.gate] * device.value for device in group.types if not device.is_shareable)


def _serve_rest(attempt: Attempt, rest: list[tuple[int, _Copy]], found: dict[int, Pick]) -> bool:
    if not rest:
        return True
    (position, (component, options)), later = rest[0], rest[1:]
    for index in _by_preference(attempt, options):
        if not attempt.step():
            return False
        saved = attempt.save()
        lines = pick_lines(attempt, component, options[index])
        if lines is not None:
            attempt.rank += options[index].rank
            found[position] = Pick(index, lines)
            if _serve_rest(attempt, later, found):
                return True
        attempt.restore(saved)
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
            supplies = {index: _supply(attempt, options[index]) for index in indices}
            indices.sort(key=lambda index: (supplies[index], index))
        yield from indices


def _supply(attempt: Attempt, option: Option) -> int:
    """Give what the devices are worth that an option could take."""
    types = {(each, line.demand) for line in option.lines for each in line.types}
    attempt.work -= len(types)
    devices = [(type_at(attempt.problem.layout, attempt.group, each), demand) for each, demand in types]
    return sum(attempt.most(device, demand) * device.value for device, demand in devices)


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
