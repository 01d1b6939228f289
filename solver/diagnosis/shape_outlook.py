"""Which waiting pods a node of some shape could help at all, and how many nodes of each shape are enough."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Amounts, Mask
from solver.domain import Batch, NodeLimit, NodeShape, PodId, Reason, ReasonCode
from solver.explain import Explanation
from solver.greedy import Greedy, Order, placement_state
from solver.greedy.device_fit import FitCache
from solver.preemption.what_if import MadeNodes
from solver.problem.problem import Part, PodClass, Problem, Requests

Reasons = tuple[Reason, ...]
NO_SHAPE: Final = Reason(
    code=ReasonCode.OUTRANKED,
    message="no shape takes it, and on the nodes that there are it has no place beside the pods that start",
)
NO_SHAPE_FOR_GANG: Final = Reason(
    code=ReasonCode.GANG_UNPLACED,
    message="no shape takes it, and the nodes that there are have no place for all pods of its gang",
)
_MOST_NODES: Final = 20_000
"""Nodes that could be added at most, of all shapes together."""
_MOST_FILLED: Final = 400
"""Pairs of shape and kind of pod for which it is counted how many pods a node of the shape takes."""


def shape_of(problem: Problem) -> Amounts:
    """Return the number of each node's shape, -1 for nodes that exist."""
    prices = problem.costs.nodes
    return np.full(problem.node_count, -1) if prices is None else prices.shape_of


class _Kind(NamedTuple):
    """Pods that a node of a shape takes alike."""

    shape: int
    is_coupled: bool
    requests: Requests
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ShapeOutlook:
    """The cluster with one node of each shape: which pods a node could help at all, and how many one takes."""

    problem: Problem

    def helpless(self, of_shapes: Callable[[], Problem]) -> dict[PodId, Reasons]:
        """
        Return the pods that fit on no node, existing or not, with their reasons.

        `of_shapes` gives the same pods with one node of each shape, and no others: reasons count these.
        """
        problem = self.problem
        served = Greedy.served(problem)
        found = {problem.pod(position).id: reasons for position, reasons in problem.rejected.items()}
        alone = set[PodId]()
        for family in problem.families:
            fits = [self._fitting(each) & served[each.index] for each in family]
            if not any(mask.any() for mask in fits):
                alone.update(problem.pod(position).id for position in family[0].members)
        if alone <= found.keys():
            return found
        shapes = of_shapes()
        found = on_shapes(shapes, alone) | found
        unexplained = {shapes.pod(position).id: reasons for position, reasons in shapes.rejected.items()}
        return {pod: unexplained[pod] for pod in alone if pod in unexplained} | found

    def counts(
        self, shapes: Sequence[NodeShape], pods: Collection[PodId], limits: Sequence[NodeLimit] = ()
    ) -> list[int]:
        """
        Return how many nodes of each shape a best solution uses at most.

        Pods of one kind need no more nodes of a shape than if they were alone there: in a solution with more, they
        could move together. Pods that depend on where others are count one node each.
        """
        problem, of_shape = self.problem, shape_of(self.problem)
        sizes: defaultdict[_Kind, int] = defaultdict(int)
        kinds: dict[_Kind, tuple[PodClass, int]] = {}
        for family in problem.families:
            size = sum(problem.pod(position).id in pods for position in family[0].members)
            for pod_class in family if size else ():
                fits = self._fitting(pod_class)
                for node in np.flatnonzero(fits & (of_shape >= 0)).tolist():
                    is_coupled = problem.is_coupled(pod_class, by_gangs=False)
                    key = _Kind(int(of_shape[node]), is_coupled, pod_class.requests, problem.parts_of(pod_class))
                    sizes[key] += size
                    kinds[key] = (pod_class, node)
        counts = [0] * len(shapes)
        for key, (pod_class, node) in kinds.items():
            is_filled = len(kinds) <= _MOST_FILLED and not key.is_coupled
            counts[key.shape] += -(-sizes[key] // max(1, self._filled(pod_class, node) if is_filled else 1))
        most = [shape.most if shape.most is not None else _MOST_NODES for shape in shapes]
        for number, shape in enumerate(shapes):
            amounts = ((limit.left, dict(limit.sizes).get(shape.name, 0)) for limit in limits)
            most[number] = min([most[number], *(max(0, left // amount) for left, amount in amounts if amount > 0)])
        return [min(count, len(pods), limit) for count, limit in zip(counts, most, strict=True)]

    def shapes_by_pod(self, shapes: Sequence[NodeShape]) -> dict[PodId, frozenset[str]]:
        """Return the names of the shapes on which each pod fits."""
        problem, of_shape, served = self.problem, shape_of(self.problem), Greedy.served(self.problem)
        found: dict[PodId, frozenset[str]] = {}
        for family in problem.families:
            fits = [of_shape[self._fitting(each) & served[each.index]].tolist() for each in family]
            names = frozenset(shapes[number].name for each in fits for number in each if number >= 0)
            found.update((problem.pod(position).id, names) for position in family[0].members)
        return found

    def _fitting(self, pod_class: PodClass) -> Mask:
        """Return the nodes that a class may use and that have room for one pod, devices apart."""
        fits: Mask = pod_class.verdicts.allowed & self.problem.available.room.fits(pod_class.requests)
        return fits

    def _filled(self, pod_class: PodClass, node: int) -> int:
        """Count the pods of a class that fill a node."""
        run = Greedy(self.problem, FitCache(self.problem), Order.QUEUE_BEST_FIT).start()
        here = np.zeros(self.problem.node_count, dtype=np.bool_)
        here[node] = True
        count = 0
        while count < pod_class.size and run.place((pod_class,), {pod_class.index: here}):
            count += 1
        return count


def on_shapes(shapes: Problem, pods: AbstractSet[PodId]) -> dict[PodId, Reasons]:
    """Say why some pods fit on no node of a problem that has one of each shape, and no others."""
    explanation, found = Explanation(shapes, placement_state.trackers(shapes)), dict[PodId, Reasons]()
    for family in shapes.families:
        members = [shapes.pod(position).id for position in family[0].members]
        if not pods.isdisjoint(members):
            found |= dict.fromkeys((pod for pod in members if pod in pods), explanation.reasons(family, is_proven=True))
    return found


@dataclass(slots=True, eq=False)
class ShapeCache:
    """
    What questions about nodes of the same shapes share: a cluster, and the same with some nodes and pods more.

    `made` are the nodes that could be added. `outlook` is that of the first question, and `helped` are the pods that
    fit somewhere by it.
    """

    made: MadeNodes = field(default_factory=dict)
    outlook: ShapeOutlook | None = None
    helped: frozenset[PodId] = frozenset()

    def outlook_of(self, batch: Batch) -> ShapeOutlook | None:
        """
        Return the outlook, if it holds for a batch as well; else None.

        What an empty node takes of a pod changes with what runs elsewhere only where pods depend on others.
        """
        if self.outlook is None or any(
            pod.id not in self.helped or pod.affinity or pod.anti_affinity or pod.spread for pod in batch.pods
        ):
            return None
        problem = self.outlook.problem
        return None if any(problem.is_coupled(each, by_gangs=False) for each in problem.classes) else self.outlook
