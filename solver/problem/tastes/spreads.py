"""Soft topology spread (ScheduleAnyway) as crowds: what one pod more in a domain costs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solver.problem.fit import Amounts
from solver.problem.limits import Domains
from solver.problem.tastes.taste import Crowd


class Spread(NamedTuple):
    """One soft constraint: the domain of every node, the matching pods that run in each domain, its maxSkew."""

    rule: str
    domain_of: Domains
    present: Amounts
    max_skew: int


def crowds(spreads: Sequence[Spread], classes: frozenset[int], pod_count: int, worst: int) -> tuple[Crowd, ...]:
    """
    Give a crowd for each constraint of some classes that have the same ones.

    A domain as full as it can be expected to get costs about `worst`, over all constraints together. As in
    kube-scheduler, constraints with more domains count more, and a large maxSkew evens the differences out.
    """
    weighed = [(each, math.log(len(each.present) + 2)) for each in spreads if len(each.present)]
    fullest = sum(_most(each, pod_count) * weight + each.max_skew - 1 for each, weight in weighed)
    found = []
    for each, weight in weighed:
        unit = max(1, round(worst * weight / fullest)) if fullest else 1
        base = (each.present - each.present.min(initial=each.present[0])) * unit
        found.append(Crowd(each.rule, each.domain_of, base, np.full_like(each.present, unit), classes))
    return tuple(found)


def _most(spread: Spread, pod_count: int) -> int:
    total = int(spread.present.sum()) + pod_count
    return max(int(spread.present.max()), -(-total // len(spread.present)), 1)
