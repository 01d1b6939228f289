"""What one pod of a class counts for quotas, over all ways to serve it on nodes that it may use."""

from dataclasses import dataclass, field

import numpy as np

from solver.problem.devices.layout import NodeGroup, type_at
from solver.problem.problem import Part, PodClass, Problem
from solver.problem.requests.component import Line


@dataclass(slots=True, eq=False)
class QuotaCounts:
    """
    What serving parts counts for each key: at least and at most, over all ways of all nodes of a class.

    Classes that differ in their quotas alone are counted once.
    """

    problem: Problem
    keys: int
    _most: dict[tuple[Part, ...], tuple[int, ...]] = field(default_factory=dict)
    _least: dict[tuple[tuple[Part, ...], int], tuple[int, ...] | None] = field(default_factory=dict)
    """By the parts and the identity of the nodes that are allowed."""
    _known: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]] | None] = field(default_factory=dict)

    def most(self, pod_class: PodClass) -> tuple[int, ...]:
        """Return the most that one pod of a class counts, with the claims that it shares."""
        return self.most_of(self.problem.parts_of(pod_class))

    def most_of(self, parts: tuple[Part, ...]) -> tuple[int, ...]:
        """Return the most that parts count, on any node."""
        if parts not in self._most:
            total = [0] * self.keys
            for part in parts:
                found = [each[1] for group in self.problem.layout.groups if (each := self._of(part, group)) is not None]
                for position in range(self.keys):
                    total[position] += part.copies * max((each[position] for each in found), default=0)
            self._most[parts] = tuple(total)
        return self._most[parts]

    def least(self, pod_class: PodClass) -> tuple[int, ...] | None:
        """Return the least that the pod's own claims count on a node that it may use; None where none serves them."""
        key = pod_class.parts, id(pod_class.verdicts.allowed)
        if key not in self._least:
            self._least[key] = self._least_of(pod_class)
        return self._least[key]

    def _least_of(self, pod_class: PodClass) -> tuple[int, ...] | None:
        group_of = np.array(self.problem.layout.group_of, dtype=np.int64)
        numbers = np.unique(group_of[pod_class.verdicts.allowed]).tolist()
        best: list[int] | None = None
        for group in (self.problem.layout.groups[number] for number in numbers):
            found = [self._of(part, group) for part in pod_class.parts]
            if any(each is None for each in found):
                continue
            sums = [
                sum(part.copies * each[0][position] for part, each in zip(pod_class.parts, found, strict=True) if each)
                for position in range(self.keys)
            ]
            best = sums if best is None else [min(pair) for pair in zip(best, sums, strict=True)]
        return None if best is None else tuple(best)

    def _of(self, part: Part, group: NodeGroup) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the least and the most that one copy of a component counts on nodes of a group."""
        key = (part.component, group.index)
        if key not in self._known:
            options = self.problem.options(part.component, group)
            rows = [[self._line(line, group) for line in option.lines] for option in options]
            self._known[key] = (
                None
                if not rows
                else (
                    tuple(min(sum(each[0][k] for each in row) for row in rows) for k in range(self.keys)),
                    tuple(max(sum(each[1][k] for each in row) for row in rows) for k in range(self.keys)),
                )
            )
        return self._known[key]

    def _line(self, line: Line, group: NodeGroup) -> tuple[list[int], list[int]]:
        types = [type_at(self.problem.layout, group, each) for each in line.types]
        charges = [dict(each.charges.get(line.demand, ())) for each in types]
        if line.takes_each:
            totals = [
                sum(each.get(k, 0) * kind.total for each, kind in zip(charges, types, strict=True))
                for k in range(self.keys)
            ]
            return totals, totals
        least = [line.needed * min((each.get(k, 0) for each in charges), default=0) for k in range(self.keys)]
        most = [line.needed * max((each.get(k, 0) for each in charges), default=0) for k in range(self.keys)]
        return least, most
