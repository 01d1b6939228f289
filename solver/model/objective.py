"""
The lexicographic objective: levels in order of importance, each one value that knows everything about the level.

A level evaluates a solution, and writes its expression with the rows that it needs. It gives an upper bound that no
solution exceeds. It decides which pods are placed and how, or it is a packing level. Larger is better: costs are
negative. Levels of placed pods come first, strictly by priority, then those that the policy names.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from solver.domain import ADDED_NODES, EXPECTED_ROOM, NODE_PRICES
from solver.model import expected_room, fragmentation, node_prices, quota_rows, soft_costs
from solver.model.devices import taken
from solver.model.form import Expression, LevelExpression
from solver.model.fragmentation import Uses
from solver.model.gangs import domains_used
from solver.model.variables import Variables
from solver.problem.devices.layout import whole
from solver.problem.problem import DOMAIN_ALLOCATION, GANG_TOPOLOGY, QUOTA_SHARES, Problem
from solver.rules.forms.domains import NO_DOMAIN
from solver.solution import Solution, beyond_shares, node_uses

Values = tuple[int, ...]
"""One number for each level, larger is better; compared as tuples."""
Write = Callable[[Variables], Expression]


@dataclass(frozen=True)  # no slots: what few levels ask is counted when they do
class CountedSolution:
    """
    A solution with what levels are counted from: pods placed by class, and what is taken node by node.

    The latter is given where it is known.
    """

    problem: Problem
    solution: Solution
    known: Uses | None = None

    @cached_property
    def placed(self) -> Counter[int]:
        """How many pods are placed, by class."""
        return Counter(choice.pod_class for choice in self.solution.choices)

    @cached_property
    def uses(self) -> Uses:
        """What is taken of nodes."""
        return list(node_uses(self.problem, self.solution)) if self.known is None else self.known


@dataclass(frozen=True, slots=True)
class ObjectiveLevel:
    """
    One level: `evaluate` counts it from a solution, `write` gives the expression to maximise.

    No solution exceeds `upper_bound`. `decides_pods` says that the level is about which pods are placed and how; the
    others only pack. `is_separable` says that the level is a sum over nodes, `is_of_picks` that equal picks for pods of
    a class are worth the same on all nodes of a group. `of_uses` evaluates a level that depends on nothing but what is
    taken of nodes.
    """

    name: str
    evaluate: Callable[[Problem, CountedSolution], int]
    write: Write
    upper_bound: Callable[[Problem], int] = lambda _: 0  # what costs, costs nothing at best
    decides_pods: bool = False
    is_separable: bool = True
    is_of_picks: bool = False
    of_uses: Callable[[Problem, Uses], int] | None = None


def objective_levels(problem: Problem) -> tuple[ObjectiveLevel, ...]:
    """Return the levels of a problem, first the most important."""
    placed = (_placed_level(name, worth) for name, worth in problem.placed_levels)
    return (*placed, *(_LEVELS[name] for name in problem.other_levels))


def level_names(problem: Problem) -> tuple[str, ...]:
    """Name the levels in order."""
    return tuple(level.name for level in objective_levels(problem))


def evaluate(problem: Problem, solution: Solution) -> Values:
    """Evaluate all levels."""
    found = counted(problem, solution)
    return tuple(level.evaluate(problem, found) for level in objective_levels(problem))


def counted(problem: Problem, solution: Solution) -> CountedSolution:
    """Count what the levels of a solution are evaluated from."""
    return CountedSolution(problem, solution)


def best_of(problem: Problem, solutions: Iterable[Solution]) -> Solution:
    """Return the solution that is worth most, the first of equals."""
    return max(solutions, key=lambda solution: evaluate(problem, solution))


def add_levels(variables: Variables) -> None:
    """Write all levels."""
    for level in objective_levels(variables.problem):
        variables.form.levels.append(LevelExpression(level.name, level.write(variables)))


def _placed_level(name: str, worth: Mapping[int, int]) -> ObjectiveLevel:
    """Pods placed, each worth what its class is."""
    return ObjectiveLevel(
        name=name,
        evaluate=lambda _, counted: sum(count * worth.get(each, 0) for each, count in counted.placed.items()),
        write=partial(_placed, worth),
        upper_bound=partial(_all_placed, worth),
        decides_pods=True,
        is_of_picks=True,
    )


def _all_placed(worth: Mapping[int, int], problem: Problem) -> int:
    """Every pod placed; classes of one family stand for the same pods, of which the most valuable counts."""
    by_family: dict[int, int] = {}
    for each in problem.classes:
        if each.index in worth:
            value = each.size * worth[each.index]
            by_family[each.family] = max(by_family.get(each.family, value), value)
    return sum(by_family.values())


def _placed(worth: Mapping[int, int], variables: Variables) -> Expression:
    return Expression({variable: worth[each] for (each, _), variable in variables.pods.items() if worth.get(each)})


def _alternatives(variables: Variables) -> Expression:
    """Later alternatives of firstAvailable cost their position in the list."""
    cost = Expression()
    for at, options in variables.options.items():
        for index, option in options:
            cost.add_scaled(variables.copies[at][index], -option.rank)
    return cost


def _opened_nodes(variables: Variables) -> Expression:
    """Nodes none of whose devices was in use."""
    return Expression(dict.fromkeys(variables.opened_nodes.values(), -1))


def _opened_nodes_in(problem: Problem, uses: Uses) -> int:
    return -len({node for node, use in uses if use.is_local and problem.available.is_unused[node]})


def _opened_devices(variables: Variables) -> Expression:
    """Shareable devices that no claim used."""
    return Expression(dict.fromkeys(variables.opened_devices.values(), -1))


def _opened_devices_in(problem: Problem, uses: Uses) -> int:
    opened = set()
    for node, use in uses:
        for row in use.rows:
            if row.device.fresh >= 0 and problem.available.left(node, row.device.fresh) > 0:
                opened.add((node, row.type) if row.type >= 0 else (-1, whole(problem.layout, row.type)))
    return -len(opened)


def _suspects(variables: Variables) -> Expression:
    """Devices that work failed on lately, or that were reported unhealthy."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        if takes and variables.type_of(cell, each).is_suspect:
            cost.add_scaled(count, -1)
    return cost


def _remote_devices(variables: Variables) -> Expression:
    """Devices that are not at hand on the node: others could use them, or they have to be attached first."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        distance = variables.type_of(cell, each).distance
        if takes and distance:
            cost.add_scaled(count, -distance)
    return cost


def _device_value(variables: Variables) -> Expression:
    """What the devices taken are worth: a large card for a small request costs more than a small one."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        if takes:
            cost.add_scaled(count, -variables.type_of(cell, each).value)
    return cost


def _gang_domains_in(problem: Problem, solution: Solution) -> int:
    """Domains of preferred levels that gangs are placed in and not yet run in; a node without a domain is one."""
    nodes: defaultdict[int, set[int]] = defaultdict(set)
    for choice in solution.choices:
        nodes[choice.pod_class].add(choice.node)
    count = 0
    for rule in problem.rules.gangs:
        for level in rule.preferred:
            at = ((int(level.domain_of[each][node]), node) for each in level.domain_of for node in nodes[each])
            used = {domain if domain != NO_DOMAIN else -2 - node for domain, node in at}
            count += len(used - level.held)
    return -count


def _soft_cost(name: str, attribute: str) -> ObjectiveLevel:
    """A cost of places that `problem.costs` holds under an attribute."""

    def evaluate(problem: Problem, counted: CountedSolution) -> int:
        choices = ((choice.pod_class, choice.node) for choice in counted.solution.choices)
        return -int(getattr(problem.costs, attribute).cost(choices))

    return ObjectiveLevel(
        name, evaluate, lambda variables: soft_costs.cost(variables, getattr(variables.problem.costs, attribute))
    )


def _packing_level(
    name: str,
    evaluate: Callable[[Problem, Uses], int],
    write: Write,
    *,
    is_separable: bool = True,
    is_of_picks: bool = False,
) -> ObjectiveLevel:
    """Make a level that only packs; it is counted from what nodes give."""
    return ObjectiveLevel(
        name,
        lambda problem, counted: evaluate(problem, counted.uses),
        write,
        is_separable=is_separable,
        is_of_picks=is_of_picks,
        of_uses=evaluate,
    )


_LEVELS: Final = {
    level.name: level
    for level in (
        ObjectiveLevel(
            GANG_TOPOLOGY,
            lambda problem, counted: _gang_domains_in(problem, counted.solution),
            domains_used,
            decides_pods=True,
        ),
        ObjectiveLevel(
            QUOTA_SHARES,
            lambda problem, counted: -beyond_shares(problem, counted.solution),
            quota_rows.beyond_shares,
            decides_pods=True,
            is_separable=False,
        ),
        ObjectiveLevel(
            "alternatives",
            lambda _, counted: -sum(use.rank for _, use in counted.uses),
            _alternatives,
            decides_pods=True,
            is_of_picks=True,
        ),
        ObjectiveLevel(
            NODE_PRICES,
            lambda problem, counted: -node_prices.price_of(problem, counted.solution),
            node_prices.price,
            decides_pods=True,
        ),
        ObjectiveLevel(
            ADDED_NODES,
            lambda problem, counted: -len(node_prices.added(problem, counted.solution)),
            node_prices.count,
            decides_pods=True,
        ),
        _soft_cost("preferences", "preferences"),
        _soft_cost(DOMAIN_ALLOCATION, "domains"),
        _soft_cost("scores", "scores"),
        _packing_level("suspects", lambda _, uses: -sum(use.suspects for _, use in uses), _suspects, is_of_picks=True),
        _packing_level(
            "remote-devices", lambda _, uses: -sum(use.distance for _, use in uses), _remote_devices, is_of_picks=True
        ),
        ObjectiveLevel(
            EXPECTED_ROOM,
            lambda problem, counted: expected_room.lost_in(problem, counted.solution, counted.uses),
            expected_room.lost,
        ),
        _packing_level("spoiled-partitions", fragmentation.spoiled_in, fragmentation.spoiled),
        _packing_level(
            "opened-groups", fragmentation.opened_groups_in, fragmentation.opened_groups, is_separable=False
        ),
        _packing_level("broken-groups", fragmentation.broken_groups_in, fragmentation.broken_groups),
        _packing_level("crowded-nodes", fragmentation.crowded_nodes_in, fragmentation.crowded_nodes),
        _packing_level("opened-nodes", _opened_nodes_in, _opened_nodes),
        _packing_level("opened-devices", _opened_devices_in, _opened_devices),
        _packing_level(
            "device-value", lambda _, uses: -sum(use.value for _, use in uses), _device_value, is_of_picks=True
        ),
    )
}
"""
The levels that a policy can name; those of gangs come by themselves (`Problem.other_levels`).
"""
