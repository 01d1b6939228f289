"""Places with named devices for all pods of a repair, once it is known which pods move."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from solver.domain import PodId
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.extract import Extracted, extract
from solver.model import assignment, build, cells
from solver.model.form import Expression
from solver.preemption import what_if
from solver.problem.prepare import prepare
from solver.problem.problem import NodeDeviceKey, Problem
from solver.problem.rules_among_pods import PodRules
from solver.repair.repair_case import MovesFound, RepairCase
from solver.repair.successors import with_batch, with_successors
from solver.search.restricted_problem import weighted
from solver.solution import Choice, Solution

_SECONDS: Final = 0.5
"""Deterministic seconds for the devices of one node."""


def placed(case: RepairCase, found: MovesFound) -> Extracted | None:
    """Place the batch and the successors of the moved pods; None where some rule refuses that."""
    moved = [case.movable[number] for number in found.moved or ()]
    cleared, successors = with_successors(case.snapshot, moved)
    batch = with_batch(case.batch, successors, case.snapshot)
    if found.places is None:
        return what_if.place_all(cleared, batch, case.policy, case.budget, case.cache)
    problem = prepare(cleared, batch, case.policy, case.cache)
    if problem.rejected:
        return None
    solution = _Dealing(case, problem).solution(found.places)
    return None if solution is None else extracted(problem, solution)


def extracted(problem: Problem, solution: Solution) -> Extracted | None:
    """Name the devices of a solution; None where it does not place all pods."""
    if len(solution.choices) < len(problem.batch.pods):
        return None
    # The limits of volumes are necessary and not sufficient: extraction may drop pods that the model places.
    named = extract(problem, solution)
    return named if len(named.placements) == len(problem.batch.pods) else None


_Counts = tuple[tuple[int, int], ...]
"""Pods by class."""


@dataclass(slots=True, eq=False)
class _Dealing:
    """Serves the pods of each node, one node of equal ones for all."""

    case: RepairCase
    problem: Problem
    known: dict[tuple[NodeDeviceKey, bytes, _Counts], list[Choice] | None] = field(default_factory=dict)

    def solution(self, places: Mapping[int, tuple[PodId, ...]]) -> Solution | None:
        """Serve the pods of all nodes; None where the devices of a node do not suffice after all."""
        problem = self.problem
        class_of = {problem.pod(position).id: each.index for each in problem.classes for position in each.members}
        found = Solution()
        for node, pods in sorted(places.items()):
            counts = Counter(class_of[pod] for pod in pods)
            choices = self._choices(node, tuple(sorted(counts.items())))
            if choices is None:
                return None
            found.choices += [choice._replace(node=node) for choice in choices]
        return found

    def _choices(self, node: int, counts: _Counts) -> list[Choice] | None:
        room = [self.problem.available.room.of(name)[node] for name in self._resources(counts)]
        key = self.problem.device_key(node), repr(room).encode(), counts
        if key not in self.known:
            self.known[key] = self._served(node, counts)
        return self.known[key]

    def _resources(self, counts: _Counts) -> list[str]:
        return sorted({name for index, _ in counts for name, _ in self.problem.classes[index].requests})

    def _served(self, node: int, counts: _Counts) -> list[Choice] | None:
        """Place so many pods of each class on one node, with the devices that the policy prefers."""
        number = dict(counts)
        classes = [each.first(number.get(each.index, 0)) for each in self.problem.classes]
        part = replace(self.problem, classes=classes, rules=PodRules(reserved=self.problem.rules.reserved))
        variables = build.build(part, cells.single(part, [node]))
        if {index for index, _ in variables.pods} < number.keys():
            return None
        for (index, _), variable in variables.pods.items():
            variables.form.require(Expression({variable: 1}), "comes", low=number[index])
        effort = Effort.within(self.case.budget, _SECONDS, presolve=False)
        levels = variables.form.levels[len(part.placed_levels) :]
        result = cpsat.maximize(variables.form, weighted(levels, variables.form.upper), effort)
        return None if result.values is None else assignment.solution_of(variables, result.values).choices
