"""
Enumerate the options of all components before anything is placed, paid from an allowance.

Alternatives and constraints of one claim multiply. Components with few expected options come first. One that needs more
than half of the rest of the allowance is given up, unless it is the last. Enumerated options stay in the layout.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

import numpy as np

from solver.domain import Allowance, AllowanceSpentError, Budget, Claim, PodId, Reason
from solver.problem import skipped_pods
from solver.problem.batch_selectors import combinations_of, spec_of
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.component import Component
from solver.problem.requests.options import MOST_OPTIONS
from solver.problem.solver_cache import SolverCache

_WALL_SHARE: Final = 0.6


def without_options(problem: Problem, cache: SolverCache, budget: Budget) -> skipped_pods.Reasons:
    """Enumerate the options of all components on all nodes that they may use; return the pods that are too costly."""
    return dict(_blamed(problem, _enumerated(problem, budget.allowance(_WALL_SHARE)), cache))


def _enumerated(problem: Problem, allowance: Allowance) -> dict[int, Allowance]:
    """Enumerate; return the components that were given up, each with the allowance that was not enough."""
    wanted = sorted(_wanted(problem), key=lambda index: (_expected(problem.requests.components[index]), index))
    groups = _groups(problem, frozenset(wanted))
    failed: dict[int, Allowance] = {}
    for number, index in enumerate(wanted, start=1):
        part = allowance.part(allowance.left if number == len(wanted) else allowance.left // 2)
        try:
            for group in sorted(groups[index]):
                problem.options(index, problem.layout.groups[group], part.spend)
        except AllowanceSpentError:
            failed[index] = part
    return failed


def _wanted(problem: Problem) -> Iterator[int]:
    """Components that can be served in more than one way."""
    used = {part.component for each in problem.classes for part in problem.parts_of(each)}
    for index in used:
        requests = problem.requests.components[index].requests
        if len(requests) > 1 or any(len(row) > 1 for row in requests) or problem.requests.components[index].links:
            yield index


def _expected(component: Component) -> int:
    """Estimate the units without enumerating."""
    ways = min(MOST_OPTIONS, prod(len(row) for row in component.requests))
    return ways * len(component.requests) * (1 + len(component.links))


def _groups(problem: Problem, wanted: frozenset[int]) -> Mapping[int, set[int]]:
    """Groups of nodes on which components may be needed."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    group_of = np.array(problem.layout.group_of, dtype=np.int64) if wanted else None
    for each in problem.classes:
        parts = wanted.intersection(part.component for part in problem.parts_of(each))
        if parts and group_of is not None:
            allowed = set(np.unique(group_of[each.verdicts.allowed]).tolist())
            for index in parts:
                found[index] |= allowed
    return found


def _blamed(problem: Problem, failed: Mapping[int, Allowance], cache: SolverCache) -> Iterator[tuple[PodId, Reason]]:
    """Return the pods of components that were given up, and cache the units that were not enough."""
    for each in problem.classes if failed else ():
        for place, position in enumerate(each.members):
            found = _first_failed(problem, each, place, failed)
            if found is None:
                continue
            given_up, claim = found
            cache.costs[spec_of(claim)] = max(given_up.insufficient_units, cache.costs.get(spec_of(claim), 0))
            yield problem.pod(position).id, skipped_pods.NOT_REACHED if given_up.is_late else combinations_of(claim)


def _first_failed(
    problem: Problem, pod_class: PodClass, place: int, failed: Mapping[int, Allowance]
) -> tuple[Allowance, Claim] | None:
    """Return the claim of a pod that needs a component which was given up, and the allowance that was not enough."""
    for part, sources in zip(pod_class.parts, pod_class.sources[place], strict=True):
        if part.component in failed:
            return failed[part.component], problem.requests.claims[sources[0].claim]
    for shared in (problem.shared[each] for each in pod_class.shared):
        for part in shared.parts:
            if part.component in failed:
                return failed[part.component], shared.claim
    return None
