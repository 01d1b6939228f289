"""The hint how many devices would fit now, and what has to be written anew to ask for so many."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from solver.arrays import Mask
from solver.domain import wording
from solver.greedy.device_fit import Condition, serve
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.requests.component import Component

if TYPE_CHECKING:
    from solver.explain.unplaced_reasons import Explanation

_MOST_CONDITIONS: Final = 64
"""The most node conditions that are tried with fewer devices."""


def hint(explanation: "Explanation", pod_class: PodClass, roomy: Mask) -> str:
    """
    Return a hint how many devices would fit now beside what the plan places, for a pod with one request for several.

    Not for a pod of a gang, or with a claim that others share: with fewer devices it may wait as before.
    """
    problem = explanation.problem
    if pod_class.index in explanation.gang_classes or any(_is_shared(problem, each) for each in pod_class.shared):
        return ""
    if _only(problem, problem.parts_of(pod_class)) is None:
        return ""
    there = explanation.leftover() if explanation.leftover is not None else explanation
    then = there.problem.classes[pod_class.index]
    room = there.room(then, tuple(each for each in there.problem.classes if each.family == then.family))
    numbers = there.numbers_of(roomy & (room.nodes | room.refused))
    found = (there.conditions[number] for number in numbers[:_MOST_CONDITIONS])
    count, needed = most_devices(there.problem, there.problem.parts_of(then), found)
    return f"{count} of {needed} {wording.FITS_NOW}; {_way(problem, pod_class, count)}" if count else ""


def _is_shared(problem: Problem, shared: int) -> bool:
    claim = problem.shared[shared].claim.id
    return sum(claim in pod.claim_ids for pod in problem.batch.pods) > 1


def _way(problem: Problem, pod_class: PodClass, count: int) -> str:
    """Say where fewer devices are asked for: in the pod, in a template, or in a claim of its own."""
    special, pod = pod_class.specials[0], problem.pod(pod_class.members[0])
    if special is not None:
        return f"request {count} {special.mappings[0].resource} in a new pod"
    source = "template" if any(each.template for each in pod.claims) else "claim"
    return f"to ask for so many, write a new {source}, as a claim cannot be changed"


def most_devices(problem: Problem, parts: tuple[Part, ...], conditions: Iterable[Condition]) -> tuple[int, int]:
    """
    Return the most devices that fit for a pod's only request on a node in one of some conditions, and its count.

    Each number is tried with the greedy device selection. (0, 0) for pods with several requests or one device.
    """
    component = _only(problem, parts)
    if component is None:
        return 0, 0
    asked = component.requests[0][0]
    conditions = tuple(conditions)
    for count in range(asked.needed - 1, 0, -1):
        fewer = component._replace(requests=((asked._replace(needed=count),),))
        changed = replace(problem, requests=replace(problem.requests, components=[*problem.requests.components, fewer]))
        part = Part(len(problem.requests.components), 1)
        if any(serve(changed, (part,), condition) is not None for condition in conditions):
            return count, asked.needed
    return 0, 0


def _only(problem: Problem, parts: tuple[Part, ...]) -> Component | None:
    """Return the component of a pod with one request, one alternative, and several devices; else None."""
    if len(parts) != 1 or parts[0].copies != 1:
        return None
    component = problem.requests.components[parts[0].component]
    is_plain = len(component.requests) == 1 and len(component.requests[0]) == 1
    return component if is_plain and component.requests[0][0].needed > 1 else None
