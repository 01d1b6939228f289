"""The nearest change that a condition has room for: how many devices would fit now, where fewer than asked for do."""

from collections.abc import Iterable
from dataclasses import replace

from solver.greedy.placing import Condition, serve
from solver.problem.problem import Part, Problem
from solver.problem.requests.component import Component


def most(problem: Problem, parts: tuple[Part, ...], conditions: Iterable[Condition]) -> tuple[int, int]:
    """
    Give the most devices that a pod's only request can have on some node in one of these conditions, and its count.

    A plan with so many was found, so it is no guess. (0, 0) for pods that ask for more than one thing, or for one
    device.
    """
    component = _only(problem, parts)
    if component is None:
        return 0, 0
    asked = component.requests[0][0]
    conditions = tuple(conditions)
    for count in range(asked.needed - 1, 0, -1):
        fewer = component._replace(requests=((asked._replace(needed=count),),))
        changed = replace(problem, components=[*problem.components, fewer])
        part = Part(len(problem.components), 1)
        if any(serve(changed, (part,), condition) is not None for condition in conditions):
            return count, asked.needed
    return 0, 0


def _only(problem: Problem, parts: tuple[Part, ...]) -> Component | None:
    """Give the component of a pod that has one, with one request and one alternative of it, for several devices."""
    if len(parts) != 1 or parts[0].copies != 1:
        return None
    component = problem.components[parts[0].component]
    is_plain = len(component.requests) == 1 and len(component.requests[0]) == 1
    return component if is_plain and component.requests[0][0].needed > 1 else None
