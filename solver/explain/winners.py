"""Who got the room that a pod would have fitted in: pods of its own namespace, because others are not its reader's."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from solver.domain import Placement, Pod, Reason, ReasonCode
from solver.explain.texts import outranked
from solver.problem.problem import Problem

_SHOWN: Final = 2


class Winners(NamedTuple):
    """The pods that a plan places, node by node."""

    pods: dict[int, list[Pod]]

    @classmethod
    def of(cls, problem: Problem, placements: Iterable[Placement]) -> "Winners":
        """Sort a plan's pods by their nodes."""
        known = {pod.id: pod for pod in problem.batch.pods}
        found: defaultdict[int, list[Pod]] = defaultdict(list)
        for each in placements:
            found[problem.inventory.node_index[each.node]].append(known[each.pod])
        return cls(dict(found))

    def named(self, reasons: tuple[Reason, ...], nodes: Iterable[int], loser: Pod) -> tuple[Reason, ...]:
        """Name in the first reason some of those to whom a pod lost on the nodes where it would fit alone."""
        if reasons[0].code is not ReasonCode.OUTRANKED:
            return reasons
        namespace, priority = loser.id.namespace, loser.priority
        there = (pod for node in nodes for pod in self.pods.get(node, ()))
        mine = (pod.id.name for pod in there if pod.id.namespace == namespace and pod.priority >= priority)
        return (outranked(is_proven=True, to=tuple(islice(mine, _SHOWN))), *reasons[1:])
