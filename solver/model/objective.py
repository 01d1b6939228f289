"""The objective: named levels in order of importance, each an expression to maximise."""

from collections.abc import Callable
from typing import Final

from solver.model.form import Expression, Level
from solver.model.rules.devices import add_scaled, taken, type_of
from solver.model.variables import Variables


def add_levels(variables: Variables) -> None:
    """Pods placed come first, strictly by priority; then the levels that the policy names."""
    for priority in variables.problem.tiers:
        variables.form.levels.append(Level(f"placed:{priority}", _placed(variables, priority)))
    for name in variables.problem.policy.levels:
        variables.form.levels.append(Level(name, _LEVELS[name](variables)))


def decides_pods(name: str) -> bool:
    """Whether a level is about which pods are placed and how; the others only pack better."""
    return name.startswith("placed:") or name == _ALTERNATIVES


def _placed(variables: Variables, priority: int) -> Expression:
    classes = variables.problem.classes
    return Expression({var: 1 for (each, _), var in variables.pods.items() if classes[each].priority == priority})


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


def _device_value(variables: Variables) -> Expression:
    """What the devices taken are worth: a large card for a small ask costs more than a small one."""
    cost = Expression()
    for cell, each, takes, count in taken(variables):
        if takes:
            add_scaled(cost, count, -type_of(variables, cell, each).value)
    return cost


_ALTERNATIVES: Final = "alternatives"
_LEVELS: Final[dict[str, Callable[[Variables], Expression]]] = {
    _ALTERNATIVES: _alternatives,
    "opened-nodes": _opened_nodes,
    "opened-devices": _opened_devices,
    "device-value": _device_value,
}
LEVEL_NAMES: Final = tuple(_LEVELS)
"""Levels that a policy may name."""
