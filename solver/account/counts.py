"""How many devices of one node a request could have: those that match, are free, untainted, and agree."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from solver.domain import ClaimId, ConstraintKind
from solver.explain import Explanation
from solver.explain.supply import Asked
from solver.feasibility.device_attributes import lookup
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Verdict

_ABSENT = frozenset({Verdict.NO, Verdict.FAILED})


class Count(NamedTuple):
    """Numbers of one alternative of a request; `aligned` is None without constraints."""

    request: str
    short: str
    claim: ClaimId
    needed: int
    matching: int
    free: int
    untainted: int
    aligned: int | None


def counts(explanation: Explanation, pod_class: PodClass, node: int) -> Iterator[Count]:
    """Count for every alternative of every request that is not allocated yet."""
    problem = explanation.problem
    for request, component, position in explanation.requests_of(pod_class):
        for order, asked in enumerate(request.alternatives):
            name = f"{request.short}/{asked.name}" if asked.name else request.short
            label = f"{request.place}{name}"
            usable = _usable(problem, explanation, asked, node)
            yield Count(
                label,
                request.short,
                request.claim,
                asked.ask.needed,
                usable.matching,
                usable.free,
                len(usable.records),
                _aligned(problem, component, (position, order), usable.records),
            )


class _Usable(NamedTuple):
    matching: int
    free: int
    records: list[int]


def _usable(problem: Problem, explanation: Explanation, asked: Asked, node: int) -> _Usable:
    matching = free = 0
    records: list[int] = []
    answers = problem.answers[asked.ask.demand]
    for index in answers.verdicts:
        verdict = answers.at(problem.inventory.records[index], node)
        if verdict in _ABSENT:
            continue
        matching += 1
        if verdict is Verdict.YES:
            is_free = not explanation.supplies.obstacle(index, asked.ask.demand)
        else:
            is_free = not problem.usage.is_held(index)
        free += is_free
        if is_free and verdict is Verdict.YES:
            records.append(index)
    return _Usable(matching, free, records)


def _aligned(problem: Problem, component: Component, member: tuple[int, int], records: list[int]) -> int | None:
    """Give the most of some devices that agree with every constraint over the request, taken one by one."""
    found: list[int] = []
    for link in component.links:
        if not any(each.request == member[0] and each.alternative in {-1, member[1]} for each in link.members):
            continue
        values = Counter(
            item
            for index in records
            for item in lookup(
                problem.inventory.records[index].id.driver, problem.inventory.records[index].device, link.attribute
            )
        )
        is_match = link.kind is ConstraintKind.MATCH
        found.append(max(values.values(), default=0) if is_match else len(values))
    return min(found) if found else None
