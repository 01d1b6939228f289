"""What a solution is worth, level by level, counted from its choices (and so independent of any model)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from solver.problem.costs.cost_model import CostModel
from solver.problem.devices import fragmentation
from solver.problem.devices.layout import DeviceType, Group, type_at, whole
from solver.problem.limits import NO_DOMAIN
from solver.problem.problem import GANG_TOPOLOGY, Part, Problem
from solver.problem.requests.component import Line, Option
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
    uses = list(_uses(problem, solution))
    return (*placed, *(_LEVELS[name](problem, solution, uses) for name in problem.other_levels))


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


class ServedComponents(NamedTuple):
    """Components served: on which node, under which description, and how."""

    node: int
    group: Group
    parts: tuple[Part, ...]
    picks: tuple[tuple[Pick, ...], ...]


def served(problem: Problem, solution: Solution) -> Iterator[ServedComponents]:
    """Go through everything that is served, of pods and of shared claims."""
    for choice in solution.choices:
        parts = problem.classes[choice.pod_class].parts
        yield ServedComponents(choice.node, problem.group(choice.node), parts, choice.picks)
    for shared in solution.shared.values():
        yield ServedComponents(
            shared.node, shared.described(problem), problem.shared[shared.shared].parts, shared.picks
        )


class TakenDevices(NamedTuple):
    """Devices of a type that a line takes."""

    node: int
    group: Group
    line: Line
    type: int
    amount: int


def taken(problem: Problem, solution: Solution) -> Iterator[TakenDevices]:
    """Go through everything that a solution takes, with admin access or without."""
    for each in served(problem, solution):
        for part, copies in zip(each.parts, each.picks, strict=True):
            options = problem.options(part.component, each.group)
            for line, counts in _lines(options, copies):
                yield from (
                    TakenDevices(each.node, each.group, line, reference, amount) for reference, amount in counts
                )


def _lines(options: tuple[Option, ...], copies: tuple[Pick, ...]) -> Iterator[tuple[Line, tuple[tuple[int, int], ...]]]:
    for pick in copies:
        yield from zip(options[pick.option].lines, pick.lines, strict=True)


class _Row(NamedTuple):
    """Devices of a type that are really taken (not by admin access), and what each of them draws of budgets."""

    type: int
    device: DeviceType
    draws: tuple[tuple[int, int], ...]
    amount: int


class _Use(NamedTuple):
    """What everybody takes who is served in the same way on a node of the same description."""

    rank: int
    rows: tuple[_Row, ...]
    value: int
    suspects: int
    is_local: bool
    """Whether any of it is the node's own."""


def _uses(problem: Problem, solution: Solution) -> Iterator[tuple[int, _Use]]:
    """Go through nodes and what is taken there; thousands of choices are a few hundred different ones."""
    known: dict[tuple[int, int, tuple[tuple[Pick, ...], ...]], _Use] = {}
    group_of = problem.layout.group_of
    for choice in solution.choices:
        key = (choice.pod_class, group_of[choice.node], choice.picks)
        use = known.get(key)
        if use is None:
            parts = problem.classes[choice.pod_class].parts
            use = known[key] = _use(
                problem, ServedComponents(choice.node, problem.group(choice.node), parts, choice.picks)
            )
        yield choice.node, use
    for shared in solution.shared.values():
        parts = problem.shared[shared.shared].parts
        yield shared.node, _use(problem, ServedComponents(shared.node, shared.described(problem), parts, shared.picks))


def _use(problem: Problem, served_: ServedComponents) -> _Use:
    rank, rows = 0, list[_Row]()
    for part, copies in zip(served_.parts, served_.picks, strict=True):
        options = problem.options(part.component, served_.group)
        rank += sum(options[pick.option].rank for pick in copies)
        rows += _rows(problem, served_.group, options, copies)
    value = sum(row.device.value * row.amount for row in rows)
    suspects = sum(row.amount for row in rows if row.device.is_suspect)
    return _Use(rank, tuple(rows), value, suspects, any(row.type >= 0 for row in rows))


def _rows(problem: Problem, group: Group, options: tuple[Option, ...], copies: tuple[Pick, ...]) -> Iterator[_Row]:
    for line, counts in _lines(options, copies):
        for reference, amount in counts:
            device = type_at(problem.layout, group, reference)
            if device.takes[line.demand]:
                yield _Row(reference, device, device.takes[line.demand], amount)


_Uses = list[tuple[int, _Use]]


def _alternatives(uses: _Uses) -> int:
    return -sum(use.rank for _, use in uses)


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


def _opened_nodes(problem: Problem, uses: _Uses) -> int:
    return -len({node for node, use in uses if use.is_local and problem.is_whole[node]})


def _opened_groups(problem: Problem, uses: _Uses) -> int:
    group_of = fragmentation.node_groups(problem)
    return -len({group_of[node] for node, use in uses if use.is_local and node in group_of})


def _broken_groups(problem: Problem, uses: _Uses) -> int:
    used: defaultdict[int, set[int]] = defaultdict(set)
    for node, use in uses:
        used[node].update(row.type for row in use.rows if row.type >= 0)
    return -sum(
        not types.isdisjoint(bundle.types)
        for node, types in used.items()
        if types
        for bundle in fragmentation.bundles(problem, problem.group(node), problem.states[node])
    )


def _crowded_nodes(problem: Problem, uses: _Uses) -> int:
    used = Counter[int]()
    for node, use in uses:
        if use.is_local:
            used[node] += sum(row.amount for row in use.rows if row.type >= 0)
    most = fragmentation.most_free(problem) if used else 0
    base = {node: most - fragmentation.free_devices(problem.group(node), problem.states[node]) for node in used}
    return -sum(count * base[node] + count * (count - 1) // 2 for node, count in used.items())


def _spoiled(problem: Problem, uses: _Uses) -> int:
    used: defaultdict[int, Counter[int]] = defaultdict(Counter)
    fresh: set[tuple[int, int]] = set()
    for node, row in ((node, row) for node, use in uses for row in use.rows if row.type >= 0):
        for budget, amount in () if row.device.is_shareable else row.draws:
            if budget != row.device.gate:
                used[node][budget] += amount * row.amount
        is_opened = row.device.fresh >= 0 and problem.states[node][row.device.fresh] > 0
        if is_opened and (node, row.type) not in fresh:
            fresh.add((node, row.type))
            used[node].update(dict(row.device.opens))
    return -sum(
        fragmentation.lost(each, problem.states[node], counted)
        for node, counted in used.items()
        for each in fragmentation.partitions(problem, node)
    )


def _opened_devices(problem: Problem, uses: _Uses) -> int:
    opened = set()
    for node, use in uses:
        for row in use.rows:
            if row.device.fresh < 0:
                continue
            if row.type >= 0 and problem.states[node][row.device.fresh] > 0:
                opened.add((node, row.type))
            elif row.type < 0 and problem.wide_left(row.device.fresh) > 0:
                opened.add((-1, whole(problem.layout, row.type)))
    return -len(opened)


def _taste(taste: CostModel, solution: Solution) -> int:
    return -taste.cost((choice.pod_class, choice.node) for choice in solution.choices)


_LEVELS: Final[dict[str, Callable[[Problem, Solution, _Uses], int]]] = {
    GANG_TOPOLOGY: lambda problem, solution, _: _gang_domains(problem, solution),
    "alternatives": lambda _problem, _solution, uses: _alternatives(uses),
    "preferences": lambda problem, solution, _: _taste(problem.tastes.preferences, solution),
    "scores": lambda problem, solution, _: _taste(problem.tastes.scores, solution),
    "suspects": lambda _problem, _solution, uses: -sum(use.suspects for _, use in uses),
    "spoiled-partitions": lambda problem, _, uses: _spoiled(problem, uses),
    "opened-groups": lambda problem, _, uses: _opened_groups(problem, uses),
    "broken-groups": lambda problem, _, uses: _broken_groups(problem, uses),
    "crowded-nodes": lambda problem, _, uses: _crowded_nodes(problem, uses),
    "opened-nodes": lambda problem, _, uses: _opened_nodes(problem, uses),
    "opened-devices": lambda problem, _, uses: _opened_devices(problem, uses),
    "device-value": lambda _problem, _solution, uses: -sum(use.value for _, use in uses),
}
