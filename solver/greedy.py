"""
First fit and best fit over the same problem: the hint, the floor and the fall-back of the exact search.

Pods are taken by strict priority. Within a priority the order differs by candidate (queue order, larger or smaller
first); the best candidate wins, and the first-fit plan in queue order is always one of them.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.placing import Condition, Cost, Kept, Served
from solver.problem.fit import PODS, Amounts
from solver.problem.inventory import Mask
from solver.problem.problem import Part, PodClass, Problem, State
from solver.solution import Choice, SharedChoice, Solution
from solver.tracking import Tracker, trackers

_FREE: Final = -1
"""The score of a way that takes no device."""
_NEVER: Final = np.iinfo(np.int64).max
_RANK, _NODE, _DEVICE, _VALUE = 10**15, 10**13, 10**10, 10**4


class Order(Enum):
    """In which order the pods of one priority are tried, and how a node is chosen."""

    QUEUE_FIRST_FIT = "queue, first fit"
    QUEUE_BEST_FIT = "queue, best fit"
    LARGE_BEST_FIT = "large first, best fit"
    SMALL_BEST_FIT = "small first, best fit"


def candidates(problem: Problem) -> list[Solution]:
    """Give one solution per order; no two orders dominate each other."""
    kept = Kept(problem)
    first = Greedy(problem, kept, Order.QUEUE_BEST_FIT).run()
    if len(first.choices) == sum(family[0].size for family in problem.families):
        return [first, Greedy(problem, kept, Order.QUEUE_FIRST_FIT).run()]
    others = (Order.QUEUE_FIRST_FIT, Order.LARGE_BEST_FIT, Order.SMALL_BEST_FIT)
    return [first, *(Greedy(problem, kept, order).run() for order in others)]


@dataclass(slots=True, eq=False)
class Greedy:
    """One run: what is left of nodes and devices while pods are placed one after the other."""

    problem: Problem
    kept: Kept
    order: Order
    solution: Solution = field(default_factory=Solution)
    free: dict[str, Amounts] = field(default_factory=dict)
    wide: State = ()
    conditions: list[tuple[int, State, bool]] = field(default_factory=list)
    numbers: dict[tuple[int, State, bool], int] = field(default_factory=dict)
    condition_of: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scores: dict[tuple[tuple[Part, ...], State], npt.NDArray[np.int64]] = field(default_factory=dict)
    anchors: dict[int, Mask] = field(default_factory=dict)
    trackers: list[Tracker] = field(default_factory=list)

    def run(self) -> Solution:
        """Place what can be placed."""
        problem = self.problem
        self.free = {resource: amounts.copy() for resource, amounts in problem.room.free.items()}
        self.wide = problem.wide_state
        self.trackers = trackers(problem)
        groups = problem.layout.group_of
        self.condition_of = np.array(
            [
                self._number((groups[node], problem.states[node], bool(problem.is_whole[node])))
                for node in range(problem.node_count)
            ],
            dtype=np.int64,
        )
        for family in self._sequence():
            self._place(family)
        return self.solution

    def _sequence(self) -> list[tuple[PodClass, ...]]:
        """One entry per pod, by priority and then by the order of this run."""
        entries = [(member, family) for family in self.problem.families for member in family[0].members]
        sign = {Order.LARGE_BEST_FIT: -1, Order.SMALL_BEST_FIT: 1}.get(self.order, 0)
        sizes = {family[0].index: sign * max(map(self._size, family)) for family in self.problem.families}
        entries.sort(key=lambda entry: (-entry[1][0].priority, sizes[entry[1][0].index], entry[0]))
        return [family for _, family in entries]

    def _size(self, pod_class: PodClass) -> int:
        components = self.problem.components
        return sum(
            part.copies
            * sum(max(ask.needed for ask in alternatives) for alternatives in components[part.component].requests)
            for part in pod_class.parts
        )

    def _number(self, condition: tuple[int, State, bool]) -> int:
        if condition not in self.numbers:
            self.numbers[condition] = len(self.conditions)
            self.conditions.append(condition)
        return self.numbers[condition]

    def _place(self, family: tuple[PodClass, ...]) -> None:
        """Place one pod in the best of the ways that its family has; one that takes no device beats all others."""
        fresh = tuple(each for each in family[0].shared if each not in self.anchors)
        joined = tuple(part for each in fresh for part in self.problem.shared[each].parts)
        best: tuple[int, int, PodClass] | None = None
        for pod_class in family:
            mask = self._mask(pod_class)
            chosen = self._choose(pod_class, pod_class.parts + joined, mask) if mask.any() else None
            if chosen is not None and (best is None or chosen < best[:2]):
                best = (*chosen, pod_class)
        if best is not None:
            self._take(best[2], best[2].parts + joined, fresh, best[1])

    def _mask(self, pod_class: PodClass) -> Mask:
        mask: Mask = pod_class.verdicts.allowed & (self._free(PODS) >= 1)
        for resource, amount in pod_class.requests:
            if amount > 0:
                mask = mask & (self._free(resource) >= amount)
        for each in pod_class.shared:
            if each in self.anchors:
                mask = mask & self.anchors[each]
        for tracker in self.trackers:
            kept = tracker.mask(pod_class)
            mask = mask if kept is None else mask & kept
        return mask

    def _free(self, resource: str) -> Amounts:
        if resource not in self.free:
            self.free[resource] = np.zeros(self.problem.node_count, dtype=np.int64)
        return self.free[resource]

    def _choose(self, pod_class: PodClass, parts: tuple[Part, ...], mask: Mask) -> tuple[int, int] | None:
        """Give the best node behind its score, which is the same for all nodes where the first one that fits is it."""
        is_first_fit = self.order is Order.QUEUE_FIRST_FIT
        if not parts:
            return (0 if is_first_fit else _FREE, self._roomiest(pod_class, mask))
        scores = self._scores(parts, self.condition_of[mask])
        per_node = np.where(mask, scores[self.condition_of], _NEVER)
        best = int(np.argmax(per_node < _NEVER) if is_first_fit else np.argmin(per_node))
        return (0 if is_first_fit else int(per_node[best]), best) if per_node[best] < _NEVER else None

    def _roomiest(self, pod_class: PodClass, mask: Mask) -> int:
        """For pods without claims: nodes without devices first, then the one with most room left."""
        if self.order is Order.QUEUE_FIRST_FIT:
            return int(np.argmax(mask))
        share = np.zeros(self.problem.node_count)
        for resource, amount in pod_class.requests:
            if amount > 0:
                share = np.maximum(share, amount / np.maximum(self._free(resource), 1))
        share = share + self.problem.inventory.has_devices
        return int(np.argmin(np.where(mask, share, np.inf)))

    def _scores(self, parts: tuple[Part, ...], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Score of every known condition for some parts; unknown ones are asked for."""
        key = (parts, self.wide)
        scores = self.scores.get(key)
        if scores is None or len(scores) < len(self.conditions):
            grown = np.full(2 * len(self.conditions), -1, dtype=np.int64)
            if scores is not None:
                grown[: len(scores)] = scores
            scores = self.scores[key] = grown
        for number in np.unique(wanted[scores[wanted] < 0]).tolist():
            served = self._serve(parts, number)
            scores[number] = _NEVER if served is None else _score(served.cost)
        return scores

    def _serve(self, parts: tuple[Part, ...], number: int) -> Served | None:
        group, state, is_whole = self.conditions[number]
        return self.kept.serve(parts, Condition(group, state, self.wide, is_whole))

    def _take(self, pod_class: PodClass, parts: tuple[Part, ...], fresh: tuple[int, ...], node: int) -> None:
        self._free(PODS)[node] -= 1
        for resource, amount in pod_class.requests:
            if amount > 0:
                self._free(resource)[node] -= amount
        for tracker in self.trackers:
            tracker.take(pod_class, node)
        if not parts:
            self.solution.choices.append(Choice(pod_class.index, node, ()))
            return
        served = self._serve(parts, int(self.condition_of[node]))
        if served is None:
            raise AssertionError("a node was chosen that cannot serve the pod")
        self.wide = served.after.wide
        self.condition_of[node] = self._number((served.after.group, served.after.state, served.after.is_whole))
        own = len(pod_class.parts)
        self.solution.choices.append(Choice(pod_class.index, node, served.picks[:own]))
        for each in fresh:
            count = len(self.problem.shared[each].parts)
            choice = SharedChoice(each, node, served.picks[own : own + count])
            own += count
            self.solution.shared[each] = choice
            self.anchors[each] = reach(self.problem, choice)


def _score(cost: Cost) -> int:
    """Fold a cost into one number; each part is far below the weight of the one before."""
    folded = cost.rank * _RANK + cost.opened_nodes * _NODE + cost.opened_devices * _DEVICE + cost.value * _VALUE
    return folded + min(cost.leftover, _VALUE - 1)


def reach(problem: Problem, choice: SharedChoice) -> Mask:
    """Nodes from which a shared claim can be used once allocated as chosen."""
    mask = np.ones(problem.node_count, dtype=np.bool_)
    here = np.zeros(problem.node_count, dtype=np.bool_)
    here[choice.node] = True
    for reference in (each for copies in choice.picks for pick in copies for line in pick.lines for each, _ in line):
        if reference >= 0:
            return here
        wide = -reference - 1
        if any(problem.inventory.records[i].device.binds_to_node for i in problem.layout.wide_members[wide]):
            return here
        nodes = problem.layout.wide_nodes[wide]
        if nodes is not None:
            reached = np.zeros(problem.node_count, dtype=np.bool_)
            reached[list(nodes)] = True
            mask &= reached
    return mask
