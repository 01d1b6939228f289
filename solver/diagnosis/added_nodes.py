"""
The cheapest nodes to add, so that as many waiting pods start as nodes can help (`dovetail fit --add-nodes`).

The nodes that could be added stand in the cluster, as many of each shape as a best solution can use, and two levels of
the objective come after those of placed pods: what the nodes in use cost, and how many they are. So every rule counts
for them, and the search proves or bounds their price as it does any level.

Pods that no node of any shape helps are taken out first. If all others find a place, no gang lacks a member, and gangs
without required topology need no rule: nodes are then independent of each other, and column generation counts equal
nodes. Where pods compete for what nodes do not bring (volumes, devices of the whole cluster, domains), all of them are
searched together.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from solver import extract, greedy
from solver.diagnosis import node_limits, shape_outlook
from solver.diagnosis.shape_outlook import Reasons, ShapeCache, ShapeOutlook, shape_of
from solver.domain import (
    ADDED_NODES,
    NODE_PRICES,
    AddedNode,
    AddedNodes,
    Batch,
    Budget,
    NodeLimit,
    NodeShape,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchStage,
    Snapshot,
    Unplaced,
)
from solver.greedy import Greedy, Order
from solver.greedy.device_fit import FitCache
from solver.model import node_prices
from solver.model.objective import best_of
from solver.preemption import nominated_room, what_if
from solver.problem.costs.cost_model import CostModels, NodePrices
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.search import stages
from solver.solution import Solution
from solver.volume_matching import CONTENDED, assign_volumes, without_volumes

_MOST_ALONE: Final = 32
"""Pods and gangs without a place that are looked at alone."""
_EXACT_TERMS: Final = 30_000
"""Estimated terms up to which the exact model is solved. Measured: beyond, it improves nothing after columns."""
_DIVE_MISTAKES: Final = 8
"""Columns taken back in one dive. Measured: more of them find nothing cheaper."""
_INCOMPLETE: Final = (
    Reason(code=ReasonCode.GANG_UNPLACED, message="other pods of its gang cannot start on nodes of any shape"),
)
_NO_TOGETHER: Final = (
    Reason(
        code=ReasonCode.GANG_UNPLACED,
        message="its pods fit one by one, and not together: no nodes of any shape make one domain large enough",
    ),
)
_COMPETING: Final = (
    Reason(
        code=ReasonCode.OUTRANKED,
        message="other waiting pods get what it needs beside a node, such as a volume or a device of several nodes",
    ),
)


def nodes_to_add(
    snapshot: Snapshot,
    batch: Batch,
    policy: Policy,
    shapes: Sequence[NodeShape],
    budget: Budget,
    *,
    limits: Sequence[NodeLimit] = (),
    cache: SolverCache | None = None,
    shared: ShapeCache | None = None,
) -> AddedNodes:
    """
    Find the nodes that cost least with which as many pods start as possible, strictly by priority.

    Pods get room that is there before nodes are added. No pod is evicted. `limits` are about nodes of several shapes
    together. `cache` is that of other solves, `shared` that of other questions about these shapes.
    """
    cache = cache or SolverCache()
    batch = _without_preferences(batch.levelled())
    question = _Question(
        snapshot=nominated_room.reserve_for_nominated(snapshot, batch, policy, cache, budget),
        policy=structs.replace(policy, levels=(NODE_PRICES, ADDED_NODES)),
        shapes=tuple(shapes),
        limits=tuple(limits),
        budget=budget,
        cache=cache,
        shared=shared or ShapeCache(),
    )
    if not any(each.is_required for pod in batch.pods for each in pod.spread):
        return question.answer(batch)
    return _spread(question, batch)


def _spread(question: "_Question", batch: Batch) -> AddedNodes:
    """
    Answer for pods that spread over domains.

    A node that could be added counts as an empty domain of a spread constraint, whether it is added or not. So the
    cheapest nodes without these constraints come first: if all pods start there with the constraints, none are cheaper.
    Else the answer is that beside all nodes that could be added, which may cost more than the least; the price without
    the constraints bounds it.
    """
    free = question.answer(
        structs.replace(
            batch,
            pods=tuple(
                structs.replace(pod, spread=tuple(each for each in pod.spread if not each.is_required))
                for pod in batch.pods
            ),
        )
    )
    there = question.with_nodes(free.nodes)
    started = {each.pod for each in free.placements}
    rest = batch.without({pod.id for pod in batch.pods} - started)
    placed = what_if.place_all(
        there, rest, structs.replace(question.policy, levels=()), question.budget, question.cache
    )
    if placed is not None:
        return structs.replace(free, placements=placed.placements, allocations=placed.allocations)
    found = question.answer(batch)
    is_comparable = len(found.placements) == len(started) and free.is_complete
    least = free.least_price if is_comparable else 0
    return structs.replace(found, least_price=least, least_count=0, is_proven=False, is_complete=is_comparable)


class _Searched(NamedTuple):
    """A solution, with what is proven of each of its levels."""

    problem: Problem
    names: tuple[AddedNode, ...]
    found: stages.SearchResult


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """What is asked: the cluster, and the shapes of nodes that it can get, within limits."""

    snapshot: Snapshot
    policy: Policy
    shapes: tuple[NodeShape, ...]
    limits: tuple[NodeLimit, ...]
    budget: Budget
    cache: SolverCache
    shared: ShapeCache

    def answer(self, batch: Batch) -> AddedNodes:
        """Take out the pods that no node helps, search, and name devices."""
        outlook, waiting = self._outlook(batch)
        helpless = frozenset(waiting)
        waiting |= _of_short_gangs(batch, waiting)
        while True:
            rest = batch.without(waiting)
            searched = self._searched(rest, outlook)
            left = _left(searched.problem, searched.found.solution)
            if not left:
                break
            lost = self._hopeless(batch, left, outlook)
            if not lost:
                searched = self._searched(rest, outlook, with_gangs=True)
                break
            waiting |= lost
            waiting |= _of_short_gangs(batch, waiting)
        found = self._named(batch, searched, waiting, helpless)
        found = structs.replace(found, waiting=tuple(self._with_limits(batch, found, outlook)))
        return self._about_shapes(batch, found, outlook)

    def _about_shapes(self, batch: Batch, found: AddedNodes, outlook: ShapeOutlook) -> AddedNodes:
        """Say so of pods that fit on nodes that exist, one by one, and that no node of any shape takes."""
        shapes = outlook.shapes_by_pod(self.shapes)
        searched = {each.pod for each in found.waiting if each.reasons in (_COMPETING, _NO_TOGETHER)}
        unhelped = frozenset(pod for pod in searched if not shapes[pod])
        if not unhelped:
            return found
        of_shapes = shape_outlook.on_shapes(self.without_nodes().problem_of(batch, [1] * len(self.shapes))[0], unhelped)
        members = {pod.id: pod.gang for pod in batch.pods}
        reasons: dict[PodId, Reasons] = {
            pod: (shape_outlook.NO_SHAPE_FOR_GANG if members[pod] else shape_outlook.NO_SHAPE, *of_shapes.get(pod, ()))
            for pod in unhelped
        }
        gangs = {members[pod] for pod in unhelped} - {None}
        reasons |= {pod: _INCOMPLETE for pod in searched - unhelped if members[pod] in gangs}
        return structs.replace(
            found,
            helpless=found.helpless | unhelped,
            waiting=tuple(structs.replace(each, reasons=reasons.get(each.pod, each.reasons)) for each in found.waiting),
        )

    def _outlook(self, batch: Batch) -> tuple[ShapeOutlook, dict[PodId, Reasons]]:
        """Look at the cluster with one node of each shape; return the pods that no node helps, too, with reasons."""
        known = self.shared.outlook_of(batch)
        if known is not None:
            return known, {}
        one_each, unlimited = [1] * len(self.shapes), replace(self, limits=())
        outlook = ShapeOutlook(unlimited.problem_of(batch, one_each)[0])
        helpless = outlook.helpless(lambda: unlimited.without_nodes().problem_of(batch, one_each)[0])
        self.shared.outlook = outlook
        self.shared.helped = frozenset(pod.id for pod in batch.pods) - helpless.keys()
        return outlook, helpless

    def with_nodes(self, added: tuple[AddedNode, ...]) -> Snapshot:
        """Return the cluster with some nodes more."""
        return what_if.with_nodes(self.snapshot, {each.name: each for each in self.shapes}, added, self.shared.made)

    def problem_of(self, batch: Batch, counts: Sequence[int]) -> tuple[Problem, tuple[AddedNode, ...]]:
        """Build the problem of some pods with so many nodes of each shape beside those that exist."""
        taken = {node.name for node in self.snapshot.nodes}
        names = tuple(
            AddedNode(name=name, shape=shape.name)
            for shape, count in zip(self.shapes, counts, strict=True)
            for name in itertools.islice(_free_names(f"{shape.name}-new", taken), count)
        )
        problem = prepare(self.with_nodes(names), batch, self.policy, self.cache, self.budget)
        number_of = {shape.name: number for number, shape in enumerate(self.shapes)}
        added = {each.name: number_of[each.shape] for each in names}
        shape_of = np.array([added.get(node.name, -1) for node in problem.inventory.nodes], dtype=np.int64)
        prices = np.array([*(shape.price for shape in self.shapes), 0], dtype=np.int64)
        limits = node_limits.binding(self.limits, self.shapes, counts, shape_of)
        return replace(problem, costs=CostModels(nodes=NodePrices(shape_of, prices[shape_of], limits))), names

    def without_nodes(self) -> "_Question":
        """Return the question in a cluster without nodes, where only devices of several nodes are there."""
        slices = tuple(one for one in self.snapshot.slices if not (one.scope.node_name or one.scope.per_device))
        return replace(self, snapshot=structs.replace(self.snapshot, nodes=(), pods=(), slices=slices, node_drivers=()))

    def _searched(self, batch: Batch, outlook: ShapeOutlook, *, with_gangs: bool = False) -> _Searched:
        """Search for the cheapest nodes; gangs that have no required topology are left out unless asked for."""
        counts = outlook.counts(self.shapes, {pod.id for pod in batch.pods}, self.limits)
        problem, names = self.problem_of(batch if with_gangs else _untied(batch), counts)
        start = node_prices.compacted(problem, best_of(problem, self._starts(problem)))
        without = problem.params.without
        if not any(each.size and problem.is_coupled(each) for each in problem.classes):
            without |= {SearchStage.LNS}  # columns have looked at all nodes together
        params = structs.replace(
            problem.params, exact_terms=_EXACT_TERMS, dive_mistakes=_DIVE_MISTAKES, without=without
        )
        found = stages.search(replace(problem, params=params), start, replace(self.budget, params=params))
        return _Searched(problem, names, found)

    def _starts(self, problem: Problem) -> list[Solution]:
        """Return greedy solutions: with all shapes, and with each shape alone that could be best alone."""
        found, of_shape = greedy.candidates(problem), shape_of(problem)
        for shape in node_prices.worth_alone(problem, len(self.shapes)) if len(self.shapes) > 1 else ():
            part = problem.within((of_shape == -1) | (of_shape == shape))
            found.append(Greedy(part, FitCache(part), Order.QUEUE_BEST_FIT).run())
        return found

    def _hopeless(self, batch: Batch, left: Sequence[Pod], outlook: ShapeOutlook) -> dict[PodId, Reasons]:
        """
        Return the pods without a place, gangs whole, that would have none alone either, with the reason of a gang.

        Empty where some of them would: then they compete with others. A pod that needs others is not looked at.
        """
        lost: dict[PodId, Reasons] = {}
        units = _units(batch, left)
        if len(units) > _MOST_ALONE or any(pod.affinity for pods in units for pod in pods):
            return {}
        for pods in units:
            alone = Batch(pods=pods, gangs=batch.gangs_of(pods))
            problem, _ = self.problem_of(alone, outlook.counts(self.shapes, {pod.id for pod in pods}, self.limits))
            found = stages.search(problem, best_of(problem, self._starts(problem)), self.budget)
            placed = [level for level in found.levels if level.name.startswith("placed:")]
            if found.solution.choices or not all(level.proven for level in placed):
                return {}
            lost |= dict.fromkeys((pod.id for pod in pods), _NO_TOGETHER if pods[0].gang else _COMPETING)
        return lost

    def _named(
        self, batch: Batch, searched: _Searched, waiting: Mapping[PodId, Reasons], helpless: frozenset[PodId]
    ) -> AddedNodes:
        """Name the nodes in use, the devices, and the pods that wait."""
        problem, names, found = searched
        settled = assign_volumes(problem, node_prices.compacted(problem, found.solution))
        extracted = extract.extract(problem, settled)
        by_name = {each.name: each for each in names}
        used = node_prices.added(problem, settled.solution)
        nodes = tuple(by_name[problem.inventory.nodes[node].name] for node in used)
        placed = {each.pod for each in extracted.placements}
        others = {pod.id: waiting.get(pod.id, _COMPETING) for pod in batch.pods}
        lost = {problem.pod(position).id for position in without_volumes(problem, settled)}
        others |= dict.fromkeys(lost, (CONTENDED,))
        levels = {level.name: level for level in found.levels}
        price, count = levels[NODE_PRICES], levels[ADDED_NODES]
        is_complete = all(level.proven for level in found.levels if level.name.startswith("placed:"))
        return AddedNodes(
            nodes=nodes,
            placements=extracted.placements,
            allocations=extracted.allocations,
            waiting=tuple(
                Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=others[pod.id])
                for pod in batch.pods
                if pod.id not in placed
            ),
            helpless=helpless,
            price=node_prices.price_of(problem, settled.solution),
            least_price=max(0, -price.bound) if is_complete else 0,
            least_count=max(0, -count.bound) if price.proven else 0,
            is_proven=price.proven and count.proven and not lost,
            is_complete=is_complete and not lost,
        )

    def _with_limits(self, batch: Batch, found: AddedNodes, outlook: ShapeOutlook) -> Iterator[Unplaced]:
        """Return the pods that wait; of those that would start without limits, these are the reason."""
        lost = {each.pod for each in found.waiting if each.pod in found.helpless or each.reasons == _INCOMPLETE}
        rest = batch.without(lost)
        unlimited = replace(self, limits=(), shapes=tuple(structs.replace(each, most=None) for each in self.shapes))
        if len(lost) == len(found.waiting) or (unlimited.shapes == self.shapes and not self.limits):
            yield from found.waiting
            return
        problem, _ = unlimited.problem_of(rest, outlook.counts(unlimited.shapes, {pod.id for pod in rest.pods}))
        solution = best_of(problem, unlimited._starts(problem))  # noqa: SLF001 - of its own class
        lost |= {pod.id for pod in _left(problem, solution)}
        shapes = outlook.shapes_by_pod(self.shapes)
        members = {pod.id for pod in batch.pods if pod.gang is not None}
        for each in found.waiting:
            if each.pod in lost:
                yield each
                continue
            is_gang = each.pod in members
            reasons = node_limits.reasons(self.limits, self.shapes, shapes[each.pod], found.nodes, is_gang=is_gang)
            yield structs.replace(each, reasons=reasons or each.reasons)


def _left(problem: Problem, solution: Solution) -> list[Pod]:
    """Return the pods without a place."""
    placed = Counter(problem.classes[each.pod_class].family for each in solution.choices)
    waiting = [
        problem.pod(position)
        for family in problem.families
        for position in family[0].members[placed[family[0].index] :]
        if position not in problem.rejected
    ]
    return waiting + [problem.pod(position) for position in problem.rejected]


def _without_preferences(batch: Batch) -> Batch:
    """Leave out preferred levels of gangs: they would come before the price."""
    gangs = (
        structs.replace(gang, levels=tuple(level for level in gang.levels if level.is_required)) for gang in batch.gangs
    )
    return structs.replace(batch, gangs=tuple(gangs))


def _untied(batch: Batch) -> Batch:
    """Return the batch without gangs that ask no more than that all pods start: pods of several are then equal."""
    tied = {gang.id for gang in batch.gangs if gang.claims or any(level.is_required for level in gang.levels)}
    return structs.replace(
        batch,
        pods=tuple(
            pod if pod.gang in tied or pod.gang is None else structs.replace(pod, gang=None) for pod in batch.pods
        ),
        gangs=tuple(gang for gang in batch.gangs if gang.id in tied),
    )


def _of_short_gangs(batch: Batch, waiting: Mapping[PodId, Reasons]) -> dict[PodId, Reasons]:
    """Return the other pods of gangs that cannot reach their minimum without some pods."""
    members = batch.members()
    return {
        pod.id: _INCOMPLETE
        for gang in batch.gangs
        for pod in members.get(gang.id, ())
        if pod.id not in waiting
        and sum(each.id not in waiting for each in members[gang.id]) < gang.min_count - gang.running_count
    }


def _units(batch: Batch, left: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Return the pods and the gangs that some pods belong to."""
    members, waiting = batch.members(), {pod.id for pod in left}
    units = {pod.gang: tuple(members[pod.gang]) for pod in left if pod.gang is not None}
    single = [(pod,) for pod in batch.pods if pod.id in waiting and pod.gang is None]
    return [*units.values(), *single]


def _free_names(prefix: str, taken: Collection[str]) -> Iterator[str]:
    """Number a name, without what nodes are called."""
    return (name for number in itertools.count(1) if (name := f"{prefix}-{number}") not in taken)
