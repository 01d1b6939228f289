"""What a solution is worth, level by level, counted from its choices (and so independent of any model)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from solver.problem.devices import groups, partitions
from solver.problem.devices.layout import DeviceType, Group, type_at
from solver.problem.limits import NO_DOMAIN
from solver.problem.problem import GANG_TOPOLOGY, Part, Problem
from solver.problem.requests.option import Line, Option
from solver.problem.tastes.taste import Taste
from solver.solution import Pick, Solution

Values = tuple[int, ...]
"""One number per level, larger is better; compared as tuples."""


def names(problem: Problem) -> tuple[str, ...]:
    """Name the levels in order, as the model does."""
    return (*(level.name for level in problem.placed_levels), *problem.other_levels)


def values(problem: Problem, solution: Solution) -> Values:
    """Evaluate all levels."""
    counts = Counter(choice.pod_class for choice in solution.choices)
    placed = (
        sum(count * level.worth.get(each, 0) for each, count in counts.items()) for level in problem.placed_levels
    )
    return (*placed, *(_LEVELS[name](problem, solution) for name in problem.other_levels))


def best(problem: Problem, solutions: Iterable[Solution]) -> Solution:
    """Give the solution that is worth most, the first of equals."""
    return max(solutions, key=lambda solution: values(problem, solution))


def most(problem: Problem, name: str) -> int:
    """Give the value that no solution exceeds: every pod of a level placed, or no cost at all."""
    if name in problem.other_levels:
        return 0
    worth = next((level.worth for level in problem.placed_levels if level.name == name), {})
    by_family: dict[int, int] = {}
    for each in problem.classes:
        if each.index in worth:
            value = each.size * worth[each.index]
            by_family[each.family] = max(by_family.get(each.family, value), value)
    return sum(by_family.values())


class Served(NamedTuple):
    """Components served: on which node, under which description, and how."""

    node: int
    group: Group
    parts: tuple[Part, ...]
    picks: tuple[tuple[Pick, ...], ...]


def served(problem: Problem, solution: Solution) -> Iterator[Served]:
    """Go through everything that is served, of pods and of shared claims."""
    for choice in solution.choices:
        parts = problem.classes[choice.pod_class].parts
        yield Served(choice.node, problem.group(choice.node), parts, choice.picks)
    for shared in solution.shared.values():
        yield Served(shared.node, shared.described(problem), problem.shared[shared.shared].parts, shared.picks)


class Taken(NamedTuple):
    """Devices of a type that a line takes."""

    node: int
    group: Group
    line: Line
    type: int
    amount: int


def taken(problem: Problem, solution: Solution) -> Iterator[Taken]:
    """Go through everything that a solution takes, with admin access or without."""
    for each in served(problem, solution):
        for part, copies in zip(each.parts, each.picks, strict=True):
            options = problem.options(part.component, each.group)
            for line, counts in _lines(options, copies):
                yield from (Taken(each.node, each.group, line, reference, amount) for reference, amount in counts)


def _lines(options: tuple[Option, ...], copies: tuple[Pick, ...]) -> Iterator[tuple[Line, tuple[tuple[int, int], ...]]]:
    for pick in copies:
        yield from zip(options[pick.option].lines, pick.lines, strict=True)


def _taken(problem: Problem, solution: Solution) -> Iterator[tuple[int, int, DeviceType, int]]:
    """(node, type, its description, how many) of everything that is really taken."""
    for node, group, line, reference, amount in taken(problem, solution):
        device = type_at(problem.layout, group, reference)
        if device.takes[line.demand]:
            yield node, reference, device, amount


def _alternatives(problem: Problem, solution: Solution) -> int:
    return -sum(
        problem.options(part.component, group)[pick.option].rank
        for _, group, parts, picks in served(problem, solution)
        for part, copies in zip(parts, picks, strict=True)
        for pick in copies
    )


def _gang_domains(problem: Problem, solution: Solution) -> int:
    """Domains of preferred levels that gangs are placed in and not yet run in; a node without a domain is one."""
    nodes: defaultdict[int, set[int]] = defaultdict(set)
    for choice in solution.choices:
        nodes[choice.pod_class].add(choice.node)
    count = 0
    for rule in problem.gangs:
        for level in rule.preferred:
            at = ((int(level.domain_of[each][node]), node) for each in level.domain_of for node in nodes[each])
            used = {domain if domain != NO_DOMAIN else -2 - node for domain, node in at}
            count += len(used - level.held)
    return -count


def _opened_nodes(problem: Problem, solution: Solution) -> int:
    return -len({node for node, each, _, _ in _taken(problem, solution) if each >= 0 and problem.is_whole[node]})


def _opened_groups(problem: Problem, solution: Solution) -> int:
    group_of = groups.node_groups(problem)
    return -len({group_of[node] for node, each, _, _ in _taken(problem, solution) if each >= 0 and node in group_of})


def _broken_groups(problem: Problem, solution: Solution) -> int:
    used: defaultdict[int, set[int]] = defaultdict(set)
    for node, each, _, _ in _taken(problem, solution):
        if each >= 0:
            used[node].add(each)
    return -sum(
        not types.isdisjoint(bundle.types)
        for node, types in used.items()
        for bundle in groups.bundles(problem, problem.group(node), problem.states[node])
    )


def _crowded_nodes(problem: Problem, solution: Solution) -> int:
    used = Counter[int]()
    for node, each, _, count in _taken(problem, solution):
        if each >= 0:
            used[node] += count
    most = groups.most_free(problem) if used else 0
    base = {node: most - groups.free_devices(problem.group(node), problem.states[node]) for node in used}
    return -sum(count * base[node] + count * (count - 1) // 2 for node, count in used.items())


def _spoiled(problem: Problem, solution: Solution) -> int:
    used: defaultdict[int, Counter[int]] = defaultdict(Counter)
    fresh: set[tuple[int, int]] = set()
    for taken_ in taken(problem, solution):
        if taken_.type < 0:
            continue
        device = type_at(problem.layout, taken_.group, taken_.type)
        for budget, amount in () if device.is_shareable else device.takes[taken_.line.demand]:
            if budget != device.gate:
                used[taken_.node][budget] += amount * taken_.amount
        is_opened = device.fresh >= 0 and problem.states[taken_.node][device.fresh] > 0
        if is_opened and device.takes[taken_.line.demand] and (taken_.node, taken_.type) not in fresh:
            fresh.add((taken_.node, taken_.type))
            used[taken_.node].update(dict(device.opens))
    return -sum(
        partitions.lost(each, problem.states[node], counted)
        for node, counted in used.items()
        for each in partitions.partitions(problem, node)
    )


def _opened_devices(problem: Problem, solution: Solution) -> int:
    opened = set()
    for node, each, device, _ in _taken(problem, solution):
        if device.fresh < 0:
            continue
        if each >= 0 and problem.states[node][device.fresh] > 0:
            opened.add((node, each))
        elif each < 0 and problem.wide_left(device.fresh) > 0:
            opened.add((-1, each))
    return -len(opened)


def _device_value(problem: Problem, solution: Solution) -> int:
    return -sum(device.value * count for _, _, device, count in _taken(problem, solution))


def _taste(taste: Taste, solution: Solution) -> int:
    return -taste.cost((choice.pod_class, choice.node) for choice in solution.choices)


_LEVELS: Final[dict[str, Callable[[Problem, Solution], int]]] = {
    GANG_TOPOLOGY: _gang_domains,
    "alternatives": _alternatives,
    "preferences": lambda problem, solution: _taste(problem.tastes.preferences, solution),
    "scores": lambda problem, solution: _taste(problem.tastes.scores, solution),
    "suspects": lambda problem, solution: (
        -sum(count for _, _, device, count in _taken(problem, solution) if device.is_suspect)
    ),
    "spoiled-partitions": _spoiled,
    "opened-groups": _opened_groups,
    "broken-groups": _broken_groups,
    "crowded-nodes": _crowded_nodes,
    "opened-nodes": _opened_nodes,
    "opened-devices": _opened_devices,
    "device-value": _device_value,
}
