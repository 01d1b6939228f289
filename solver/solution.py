"""
A solution of a problem, in types and counts: what greedy and search produce and extraction makes concrete.

`node_uses` and `taken_devices` say what a solution takes of nodes. Levels of the objective are evaluated from it,
without any model.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.problem.devices.layout import DeviceType, NodeGroup, type_at
from solver.problem.problem import Part, Problem
from solver.problem.requests.component import Line, Option
from solver.rules.quotas.bound_resources import QuotaLimits


class Pick(NamedTuple):
    """One copy of a component served: the option taken, and (type, devices) for each of its lines."""

    option: int
    lines: tuple[tuple[tuple[int, int], ...], ...]


class Choice(NamedTuple):
    """One pod of a class on a node; `picks[j][k]` serves the k-th copy of the j-th part."""

    pod_class: int
    node: int
    picks: tuple[tuple[Pick, ...], ...]


class SharedChoice(NamedTuple):
    """
    A shared claim allocated as seen from a node, or from a site (see `model.cells`).

    `site` describes the site that the picks refer to; None where they refer to the node's own description.
    """

    shared: int
    node: int
    picks: tuple[tuple[Pick, ...], ...]
    site: NodeGroup | None = None

    def described(self, problem: Problem) -> NodeGroup:
        """Return the description that the picks refer to."""
        return problem.group(self.node) if self.site is None else self.site


@dataclass(slots=True, eq=False)
class Solution:
    """
    Choices in the order in which members of their classes are served; and the shared claims allocated.

    `unreached` counts by family the pods that were not tried because time had ended.
    """

    choices: list[Choice] = field(default_factory=list)
    shared: dict[int, SharedChoice] = field(default_factory=dict)
    unreached: Counter[int] = field(default_factory=Counter)


class ServedComponents(NamedTuple):
    """Components served: on which node, under which description, and how."""

    node: int
    group: NodeGroup
    parts: tuple[Part, ...]
    picks: tuple[tuple[Pick, ...], ...]


def _served(problem: Problem, solution: Solution) -> Iterator[ServedComponents]:
    """Go through everything that is served, of pods and of shared claims."""
    for choice in solution.choices:
        parts = problem.classes[choice.pod_class].parts
        yield ServedComponents(choice.node, problem.group(choice.node), parts, choice.picks)
    for shared in solution.shared.values():
        yield _served_shared(problem, shared)


def _served_shared(problem: Problem, shared: SharedChoice) -> ServedComponents:
    return ServedComponents(shared.node, shared.described(problem), problem.shared[shared.shared].parts, shared.picks)


class TakenDevices(NamedTuple):
    """Devices of a type that a line takes."""

    node: int
    group: NodeGroup
    line: Line
    type: int
    amount: int


def taken_devices(problem: Problem, solution: Solution) -> Iterator[TakenDevices]:
    """Go through everything that a solution takes, with admin access or without."""
    for each in _served(problem, solution):
        for part, copies in zip(each.parts, each.picks, strict=True):
            options = problem.options(part.component, each.group)
            for line, counts in _lines(options, copies):
                yield from (
                    TakenDevices(each.node, each.group, line, reference, amount) for reference, amount in counts
                )


def _lines(options: tuple[Option, ...], copies: tuple[Pick, ...]) -> Iterator[tuple[Line, tuple[tuple[int, int], ...]]]:
    for pick in copies:
        yield from zip(options[pick.option].lines, pick.lines, strict=True)


class DeviceUse(NamedTuple):
    """Devices of a type that are really taken (not by admin access), and what each of them draws of budgets."""

    type: int
    device: DeviceType
    draws: tuple[tuple[int, int], ...]
    amount: int


class NodeUse(NamedTuple):
    """What one pod or shared claim takes; equal for all that are served equally on nodes of one description."""

    rank: int
    rows: tuple[DeviceUse, ...]
    value: int
    suspects: int
    distance: int
    is_local: bool
    """Whether a device of the node itself is among it."""

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Return all that does not name a device."""
        return self.rank, self.value, self.suspects, self.distance


def node_uses(problem: Problem, solution: Solution) -> Iterator[tuple[int, NodeUse]]:
    """Go through nodes and what is taken there; equal choices are counted once, since most of thousands are equal."""
    known: dict[tuple[tuple[Part, ...], int, tuple[tuple[Pick, ...], ...]], NodeUse] = {}
    group_of = problem.layout.group_of
    for choice in solution.choices:
        parts = problem.classes[choice.pod_class].parts
        key = (parts, group_of[choice.node], choice.picks)
        use = known.get(key)
        if use is None:
            use = known[key] = use_of(
                problem, ServedComponents(choice.node, problem.group(choice.node), parts, choice.picks)
            )
        yield choice.node, use
    for shared in solution.shared.values():
        yield shared.node, use_of(problem, _served_shared(problem, shared))


def use_of(problem: Problem, served: ServedComponents) -> NodeUse:
    """Describe what served components take."""
    rank, rows = 0, list[DeviceUse]()
    for part, copies in zip(served.parts, served.picks, strict=True):
        options = problem.options(part.component, served.group)
        rank += sum(options[pick.option].rank for pick in copies)
        rows += _rows(problem, served.group, options, copies)
    value = sum(row.device.value * row.amount for row in rows)
    suspects = sum(row.amount for row in rows if row.device.is_suspect)
    distance = sum(row.amount * row.device.distance for row in rows)
    return NodeUse(rank, tuple(rows), value, suspects, distance, any(row.type >= 0 for row in rows))


def _rows(
    problem: Problem, group: NodeGroup, options: tuple[Option, ...], copies: tuple[Pick, ...]
) -> Iterator[DeviceUse]:
    for line, counts in _lines(options, copies):
        for reference, amount in counts:
            device = type_at(problem.layout, group, reference)
            if device.takes[line.demand]:
                yield DeviceUse(reference, device, device.takes[line.demand], amount)


def quotas_beside(problem: Problem, solution: Solution) -> QuotaLimits:
    """Return the limits of quotas with what a solution takes counted as held."""
    rules = problem.rules.quotas
    if not rules.limits:
        return rules
    units, nodes = Counter[int](), defaultdict[int, set[int]](set)
    equal = defaultdict[tuple[int, int, tuple[tuple[Pick, ...], ...]], list[int]](list)
    group_of = problem.layout.group_of
    for choice in solution.choices:
        if choice.pod_class in rules.of_class:
            equal[choice.pod_class, group_of[choice.node], choice.picks].append(choice.node)
    owners = [
        (rules.of_class[index], ServedComponents(at[0], problem.group(at[0]), problem.classes[index].parts, picks), at)
        for (index, _, picks), at in equal.items()
    ]
    owners += [
        (rules.of_shared.get(shared.shared, ()), _served_shared(problem, shared), [shared.node])
        for shared in solution.shared.values()
    ]
    for numbers, served, at in owners:
        counted, local = _counted(problem, served)
        for number in numbers:
            limit = rules.limits[number]
            if not limit.counts_nodes:
                units[number] += counted[limit.position] * len(at)
            elif local[limit.position]:
                nodes[number].update(node for node in at if node not in limit.nodes)
    added = {**units, **{number: len(each) for number, each in nodes.items()}}
    return rules.with_held(added, {number: rules.limits[number].nodes | each for number, each in nodes.items()})


def beyond_shares(problem: Problem, solution: Solution) -> int:
    """Count the devices that a solution gives leaves of quotas beyond their shares."""
    rules = problem.rules.quotas
    of_class = {index: number for number, each in enumerate(rules.shares) for index in each.classes}
    of_shared = {index: number for number, each in enumerate(rules.shares) for index in each.shared}
    owners = [of_class.get(each.pod_class, -1) for each in solution.choices]
    owners += [of_shared.get(each.shared, -1) for each in solution.shared.values()]
    totals = Counter[int]()
    for number, (counted, _) in zip(owners, _counts(problem, solution), strict=True):
        if number >= 0:
            totals[number] += counted[rules.shares[number].position]
    return sum(max(0, totals[number] - each.left) for number, each in enumerate(rules.shares))


def keeps_quotas(problem: Problem, choice: Choice) -> bool:
    """Whether a pod by itself takes no more than quotas leave."""
    rules = problem.rules.quotas
    numbers = rules.of_class.get(choice.pod_class, ())
    if not numbers:
        return True
    (served,) = _served(problem, Solution([choice]))
    counted, local = _counted(problem, served)
    return all(
        not (local[limit.position] and choice.node not in limit.nodes and limit.left < 1)
        if limit.counts_nodes
        else counted[limit.position] <= limit.left
        for limit in map(rules.limits.__getitem__, numbers)
    )


def _counts(problem: Problem, solution: Solution) -> Iterator[tuple[Counter[int], Counter[int]]]:
    """Return `_counted` of each choice, then of each shared claim; equal choices are counted once."""
    known: dict[object, tuple[Counter[int], Counter[int]]] = {}
    group_of = problem.layout.group_of
    keys: list[object] = [(each.pod_class, group_of[each.node], each.picks) for each in solution.choices]
    keys += [None] * len(solution.shared)
    for key, served in zip(keys, _served(problem, solution), strict=True):
        counted = known.get(key) if key is not None else None
        if counted is None:
            counted = known[key] = _counted(problem, served)
        yield counted


def _counted(problem: Problem, served: ServedComponents) -> tuple[Counter[int], Counter[int]]:
    """Return what served components count for quotas by key, and what devices of the node itself count of it."""
    counted, local = Counter[int](), Counter[int]()
    taken = (
        (line, reference, amount)
        for part, copies in zip(served.parts, served.picks, strict=True)
        for line, counts in _lines(problem.options(part.component, served.group), copies)
        for reference, amount in counts
    )
    for line, reference, amount in taken:
        for position, units in type_at(problem.layout, served.group, reference).charges.get(line.demand, ()):
            counted[position] += units * amount
            local[position] += units * amount * (reference >= 0)
    return counted, local
