"""Which pods only a quota keeps back: more devices or nodes would not help them, so no other reason is given."""

from collections.abc import Sequence
from dataclasses import replace

from solver.domain import Reason
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.greedy.units import PlacementUnit
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.gang_rules import GangRule
from solver.rules.quotas.bound_resources import NO_QUOTAS, BoundResource, QuotaLimits


def kept_back(problem: Problem, family: Sequence[PodClass]) -> Reason | None:
    """
    Return the reason of pods that need more than quotas leave; None for others.

    Where it depends on what is chosen, a pod (or its gang) is kept back if it fits once quotas are ignored.
    """
    quotas = problem.rules.quotas
    blocked = [quotas.blocked.get(each.index) for each in family if each.guarantee < 0]
    if all(each is not None for each in blocked):
        return blocked[0]
    bound = [each for each in family if each.guarantee < 0 and each.index in quotas.of_class]
    is_gang = _gang_of(problem, family[0]) is not None
    limit = next((found for each in bound if (found := _tightest(quotas, each, is_gang=is_gang)) is not None), None)
    if limit is None or _fits(problem, family):
        return None
    free = replace(problem, rules=replace(problem.rules, quotas=NO_QUOTAS))
    if not _fits(free, family):
        return None
    most = max(quotas.most[each.index][limit.position] for each in bound)
    rule = _gang_of(problem, family[0])
    return limit.reason(1 if limit.counts_nodes else most, gang="" if rule is None else rule.gang.id.name)


def _tightest(quotas: QuotaLimits, pod_class: PodClass, *, is_gang: bool) -> BoundResource | None:
    """Return the first limit that leaves less than a pod counts at most, or (of a gang) the least of all."""
    limits = [quotas.limits[number] for number in quotas.of_class[pod_class.index]]
    most = quotas.most[pod_class.index]
    short = (each for each in limits if each.left < most[each.position])
    return next(short, min(limits, key=lambda each: each.left) if is_gang else None)


def _gang_of(problem: Problem, pod_class: PodClass) -> GangRule | None:
    """Return the gang that starts as a whole or not at all, with pods of a class."""
    return next((each for each in problem.rules.gangs if each.need and pod_class.index in each.classes), None)


def _fits(problem: Problem, family: Sequence[PodClass]) -> bool:
    """Whether one pod of a family fits alone, or as many of its gang as have to."""
    placer = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT).start()
    rule = _gang_of(problem, family[0])
    if rule is None:
        return placer.place(tuple(family), {})
    families = [each for each in problem.families if each[0].index in rule.classes]
    entries = tuple(each for each in families for _ in each[0].members)
    return units.most(placer, PlacementUnit(entries, rule), rule).pods >= rule.need
