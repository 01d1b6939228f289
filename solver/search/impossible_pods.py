"""
Pods that no node can serve, not even where no other pod of the batch is placed.

The relaxation hardly sees constraints over several requests: it places half of a pod on each of two nodes. Then nothing
is proven, and the exact model and LNS look for places that are nowhere until the budget ends. So a model of one pod on
one node asks each kind of node. Where all say no, the pods get no node: the solutions are the same.

Answers are kept as long as the layout, by what the pod asks for and what the node and the cluster have left.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

import numpy as np

from solver.domain import Budget
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import build, cells
from solver.model.form import Expression, OutOfTimeError
from solver.problem.problem import PodClass, Problem
from solver.problem.requests.remaining_options import are_complete
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


class _Answer(Enum):
    TOO_FEW = auto()
    """Devices are too few, which the relaxation knows."""
    IMPOSSIBLE = auto()
    POSSIBLE = auto()


@dataclass(slots=True, eq=False)
class _Questions:
    """Asks kinds of nodes whether they can serve a pod; `left` of them beside those whose answer is known."""

    problem: Problem
    budget: Budget
    left: int

    def is_impossible(self, pod_class: PodClass) -> bool:
        """Whether surely no kind of node can serve a pod, and the relaxation does not know it."""
        nodes = np.flatnonzero(build.room_for(self.problem, pod_class) > 0)
        _, first = np.unique(self.problem.device_keys()[1][nodes], return_index=True)
        found = set[_Answer]()
        for node in nodes[first].tolist():
            found.add(self._answer(pod_class, node))
            if _Answer.POSSIBLE in found:
                return False
        return _Answer.IMPOSSIBLE in found

    def _answer(self, pod_class: PodClass, node: int) -> _Answer:
        problem, group = self.problem, self.problem.group(node)
        components = [problem.requests.components[part.component] for part in pod_class.parts]
        parts = tuple((each, part.copies) for each, part in zip(components, pod_class.parts, strict=True))
        options = (problem.options(part.component, group) for part in pod_class.parts)
        # Options that are not complete depend on what other nodes have left.
        is_kept = all(map(are_complete, components, options))
        known: dict[Hashable, _Answer] = problem.layout.serving if is_kept else {}
        # Devices of one node draw on counters of several, too.
        key = (parts, group.index, problem.available.states[node], problem.available.wide_state)
        if key not in known:
            if self.left == 0 or self.budget.should_stop():
                return _Answer.POSSIBLE
            self.left -= 1
            answer = self._asked(pod_class, node)
            if answer is None:
                return _Answer.POSSIBLE
            if len(known) >= _MOST_KEPT:
                known.clear()
            known[key] = answer
        return known[key]

    def _asked(self, pod_class: PodClass, node: int) -> _Answer | None:
        """Ask one node about one pod, all rules between pods apart; None where the effort was not enough."""
        if not build.most_served(self.problem, pod_class, node):
            return _Answer.TOO_FEW
        alone = _alone(self.problem, pod_class)
        try:
            variables = build.build(alone, cells.single(alone, [node]), stop=self.budget.should_stop)
        except OutOfTimeError:
            return None
        (placed,) = variables.pods.values()
        one = Expression()
        one.add(placed)
        variables.form.require(one, HAS_PLACE, low=1)
        effort = Effort.within(self.budget, self.problem.params.impossible_seconds, presolve=True)
        status = cpsat.maximize(variables.form, None, effort).status
        if status is EngineStatus.UNKNOWN:
            return None
        return _Answer.IMPOSSIBLE if status is EngineStatus.INFEASIBLE else _Answer.POSSIBLE


def _alone(problem: Problem, pod_class: PodClass) -> Problem:
    """Return a problem of one pod, without rules between pods and without prices: answers hold for other ones, too."""
    classes = [each.first(int(each.index == pod_class.index)) for each in problem.classes]
    costs = replace(problem.costs, nodes=None)
    return replace(problem, classes=classes, shared=[], rules=PodRules(), costs=costs)
