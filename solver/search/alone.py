"""
Pods that no node can take, even one at a time.

The relaxation spreads a pod over all nodes and may leave open whether it could be placed; a search would then look for
its place until the time is up, and the pods decided with it would wait. One pod on one node is decided in milliseconds.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from solver.domain import Budget
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.engines.status import EngineStatus
from solver.model import build, cells
from solver.model.form import OutOfTimeError
from solver.problem.fit import PODS
from solver.problem.problem import PodClass, Problem
from solver.solution import Solution

_SECONDS: Final = 0.05
"""Deterministic seconds for one pod on one node."""
_MOST_TRIED: Final = 64
_PARTS: Final = 4
"""Of what is left of the wall time it takes one of so many parts at most."""


def without_hopeless(problem: Problem, solution: Solution, budget: Budget) -> Problem:
    """
    Rule the nodes out for the classes that a solution places nowhere, where it is shown that none can take one pod.

    Gives the problem itself where nothing was shown. A solution of the one is a solution of the other.
    """
    if sum(each.size for each in problem.classes) <= 1 or problem.has_burdens:
        return problem  # devices that take of their node make every node its own kind
    placed = Counter(choice.pod_class for choice in solution.choices)
    left = budget.remaining_seconds()
    watch = replace(budget, seconds=budget.seconds - left + left / _PARTS, stage="alone")
    nowhere = np.zeros(problem.node_count, dtype=np.bool_)
    classes, tried = problem.classes.copy(), 0
    for each in problem.classes:
        if placed[each.index] or not _depends_on_devices(problem, each):
            continue
        nodes = list(_kinds(problem, each))
        tried += len(nodes)
        if tried > _MOST_TRIED or watch.should_stop():
            break
        if all(_is_impossible(problem, each, node, watch) for node in nodes):
            classes[each.index] = replace(each, verdicts=each.verdicts.within(nowhere))
    return replace(problem, classes=classes) if classes != problem.classes else problem


def _depends_on_devices(problem: Problem, pod_class: PodClass) -> bool:
    """Whether nothing but devices tells nodes apart that may take a pod of a class, and have room for one more pod."""
    is_free = not pod_class.volumes and pod_class.index not in problem.held and not problem.is_tied(pod_class)
    return bool(pod_class.size and pod_class.parts) and is_free


def _kinds(problem: Problem, pod_class: PodClass) -> Iterator[int]:
    """Give one node of each kind that a class may use: those with the same devices, of which the same is left."""
    seen = set()
    for node in np.flatnonzero(pod_class.verdicts.allowed & (problem.room.of(PODS) > 0)).tolist():
        kind = (problem.layout.group_of[node], problem.states[node], bool(problem.is_whole[node]))
        if kind not in seen:
            seen.add(kind)
            yield node


def _is_impossible(problem: Problem, pod_class: PodClass, node: int, budget: Budget) -> bool:
    """Whether it is proven that a node cannot give one pod of a class its devices, whatever else the pod asks for."""
    others = [replace(each, members=[], sources=[]) for each in problem.classes]
    others[pod_class.index] = replace(
        pod_class,
        family=pod_class.index,  # as many pods as a family's first class has are placed of it: here that has none
        requests=(),
        members=pod_class.members[:1],
        sources=pod_class.sources[:1],
    )
    policy = structs.replace(problem.policy, levels=(), sums_priorities=False)
    one = replace(problem, classes=others, policy=policy, gangs=()).on(node)
    try:
        form = build.build(one, cells.single(one, [node]), stop=budget.should_stop).form
    except OutOfTimeError:
        return False
    names = {each.name for each in one.placed_levels if pod_class.index in each.worth}
    (level,) = (each for each in form.levels if each.name in names)
    form.require(level.expression, "the pod is placed", low=1)
    effort = Effort(
        seconds=max(budget.remaining_seconds(), 0.01),
        deterministic_seconds=_SECONDS,
        seed=budget.seed,
        workers=1,
        presolve=True,
    )
    return cpsat.maximize(form, None, effort).status is EngineStatus.INFEASIBLE
