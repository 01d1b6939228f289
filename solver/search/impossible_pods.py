"""
Pods that no node can serve, not even where no other pod of the batch is placed.

The relaxation hardly sees constraints over several requests: it places half of a pod on each of two nodes. Then nothing
is proven, and the exact model and LNS look for places that are nowhere until the budget ends. So a model of one pod on
one node asks each kind of node. Where all say no, the pods get no node: the solutions are the same.

Answers are kept as long as the layout, by what the pod asks for and what the node has left.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.domain import Budget
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import build, cells
from solver.model.form import Expression, OutOfTimeError
from solver.problem.problem import PodClass, Problem
from solver.problem.rules_among_pods import PodRules
from solver.rules.verdicts import NodeVerdicts
from solver.solution import Solution

HAS_PLACE: Final = "the pod has a place"
"""The row that makes a model a question."""
_MOST_KEPT: Final = 10_000
"""Answers in one layout; a decision may add to them."""


def without_impossible(problem: Problem, start: Solution, budget: Budget) -> Problem:
    """Return the same problem, in which pods that no node can serve may use none; `start` has no place for them."""
    return problem.with_verdicts(dict(_no_nodes(problem, start, budget)))


def _no_nodes(problem: Problem, start: Solution, budget: Budget) -> Iterator[tuple[int, NodeVerdicts]]:
    placed = {choice.pod_class for choice in start.choices}
    asked = _Questions(problem, budget, problem.params.impossible_questions)
    for each in problem.classes:
        components = [problem.requests.components[part.component] for part in each.parts]
        if not each.size or each.index in placed or each.shared or not any(one.links for one in components):
            continue
        if asked.is_impossible(each):
            nowhere = np.zeros(problem.node_count, dtype=np.bool_)
            yield each.index, replace(each.verdicts, allowed=nowhere)


@dataclass(slots=True, eq=False)
class _Questions:
    """Asks kinds of nodes whether they can serve a pod; `left` of them beside those whose answer is known."""

    problem: Problem
    budget: Budget
    left: int

    def is_impossible(self, pod_class: PodClass) -> bool:
        """Whether every kind of node surely cannot serve a pod."""
        nodes = np.flatnonzero(build.room_for(self.problem, pod_class) > 0)
        _, first = np.unique(self.problem.device_keys()[1][nodes], return_index=True)
        return not any(self._may_serve(pod_class, node) for node in nodes[first].tolist())

    def _may_serve(self, pod_class: PodClass, node: int) -> bool:
        problem, group = self.problem, self.problem.group(node)
        known: dict[Hashable, bool] = {} if group.wide else problem.layout.serving
        parts = tuple((problem.requests.components[part.component], part.copies) for part in pod_class.parts)
        key = (parts, group.index, problem.available.states[node])
        if key not in known:
            if self.left == 0 or self.budget.should_stop():
                return True
            answer = self._asked(pod_class, node)
            if answer is None:
                return True
            if len(known) >= _MOST_KEPT:
                known.clear()
            known[key] = answer
        return known[key]

    def _asked(self, pod_class: PodClass, node: int) -> bool | None:
        """Ask one node about one pod, all rules between pods apart; None where the effort was not enough."""
        problem = self.problem
        if not build.most_served(problem, pod_class, node):
            return False
        self.left -= 1
        alone = _resized(problem, {pod_class.index: 1})
        try:
            variables = build.build(alone, cells.single(alone, [node]), stop=self.budget.should_stop)
        except OutOfTimeError:
            return None
        (placed,) = variables.pods.values()
        one = Expression()
        one.add(placed)
        variables.form.require(one, HAS_PLACE, low=1)
        effort = Effort.within(self.budget, problem.params.impossible_seconds, presolve=True)
        status = cpsat.maximize(variables.form, None, effort).status
        return None if status is EngineStatus.UNKNOWN else status is not EngineStatus.INFEASIBLE


def _resized(problem: Problem, sizes: Mapping[int, int]) -> Problem:
    """Return a problem with so many pods of some classes and none of the others, without rules between pods."""
    classes = [
        replace(each, members=each.members[:size], sources=each.sources[:size], specials=each.specials[:size])
        for each in problem.classes
        for size in (sizes.get(each.index, 0),)
    ]
    return replace(problem, classes=classes, shared=[], rules=PodRules())
