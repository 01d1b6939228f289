"""The objective: named levels in order of importance, each an expression to maximise."""

from collections.abc import Callable, Mapping
from typing import Final

from solver.model import fragmentation, soft_costs
from solver.model.devices import add_scaled, taken, type_of
from solver.model.form import Expression, ObjectiveLevel
from solver.model.gangs import domains_used
from solver.model.variables import Variables
from solver.problem.problem import GANG_TOPOLOGY


def add_levels(variables: Variables) -> None:
    """Pods placed come first, strictly by priority; then the levels that the policy names."""
    for name, worth in variables.problem.placed_levels:
        variables.form.levels.append(ObjectiveLevel(name, _placed(variables, worth)))
    for name in variables.problem.other_levels:
        variables.form.levels.append(ObjectiveLevel(name, _LEVELS[name](variables)))


def decides_pods(name: str) -> bool:
    """Whether a level is about which pods are placed and how; the others only pack better."""
    return name.startswith("placed") or name in {_ALTERNATIVES, GANG_TOPOLOGY}


def _placed(variables: Variables, worth: Mapping[int, int]) -> Expression:
    return Expression({variable: worth[each] for (each, _), variable in variables.pods.items() if worth.get(each)})


def _alternatives(variables: Variables) -> Expression:
    """Later alternatives of firstAvailable cost their position in the list."""
    cost = Expression()
    for at, options in variables.options.items():
        for index, option in options:
            add_scaled(cost, variables.copies[at][index], -option.rank)
    return cost


def _opened_nodes(variables: Variables) -> Expression:
    """Nodes none of whose devices was in use."""
    return Expression(dict.fromkeys(variables.opened_nodes.values(), -1))


def _opened_devices(variables: Variables) -> Expression:
    """Shareable devices that nobody used."""
    return Expression(dict.fromkeys(variables.opened_devices.values(), -1))


def _suspects(variables: Variables) -> Expression:
    """Devices that work failed on lately, or that were reported unhealthy."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        if takes and type_of(variables, cell, each).is_suspect:
            add_scaled(cost, count, -1)
    return cost


def _device_value(variables: Variables) -> Expression:
    """What the devices taken are worth: a large card for a small ask costs more than a small one."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        if takes:
            add_scaled(cost, count, -type_of(variables, cell, each).value)
    return cost


_ALTERNATIVES: Final = "alternatives"
_LEVELS: Final[dict[str, Callable[[Variables], Expression]]] = {
    GANG_TOPOLOGY: domains_used,
    _ALTERNATIVES: _alternatives,
    "preferences": lambda variables: soft_costs.cost(variables, variables.problem.tastes.preferences),
    "scores": lambda variables: soft_costs.cost(variables, variables.problem.tastes.scores),
    "suspects": _suspects,
    "spoiled-partitions": fragmentation.spoiled,
    "opened-groups": fragmentation.opened_groups,
    "broken-groups": fragmentation.broken_groups,
    "crowded-nodes": fragmentation.crowded_nodes,
    "opened-nodes": _opened_nodes,
    "opened-devices": _opened_devices,
    "device-value": _device_value,
}
