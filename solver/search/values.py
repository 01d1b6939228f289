"""What a solution is worth, level by level, counted from its choices (and so independent of any model)."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from solver.problem.layout import DeviceType, Group, type_at
from solver.problem.option import Line, Option
from solver.problem.problem import Part, Problem
from solver.solution import Pick, Solution

Values = tuple[int, ...]
"""One number per level, larger is better; compared as tuples."""


def names(problem: Problem) -> tuple[str, ...]:
    """Name the levels in order, as the model does."""
    return (*(f"placed:{priority}" for priority in problem.tiers), *problem.policy.levels)


def values(problem: Problem, solution: Solution) -> Values:
    """Evaluate all levels."""
    return (*solution.placed_by_tier(problem), *(_LEVELS[name](problem, solution) for name in problem.policy.levels))


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


def _opened_nodes(problem: Problem, solution: Solution) -> int:
    return -len({node for node, each, _, _ in _taken(problem, solution) if each >= 0 and problem.is_whole[node]})


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


_LEVELS: Final[dict[str, Callable[[Problem, Solution], int]]] = {
    "alternatives": _alternatives,
    "opened-nodes": _opened_nodes,
    "opened-devices": _opened_devices,
    "device-value": _device_value,
}
