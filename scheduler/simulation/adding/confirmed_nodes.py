"""
Nodes to add with which the scheduler itself starts what is promised: it is decided again with the nodes there.

The search for the cheapest nodes knows more than a decision: it looks at prices for longer than a decision takes. Where
the decision leaves pods out that the search has placed, nodes are added for these, twice at most. What is left out then
waits.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

import solver
from scheduler.simulation import simulator
from scheduler.worker.recording import Record
from solver.domain import (
    AddedNodes,
    Batch,
    Budget,
    NodeLimit,
    NodeShape,
    Plan,
    PodId,
    PreemptionRules,
    Reason,
    ReasonCode,
    Snapshot,
    Unplaced,
)

_SECONDS: Final = 60.0
_DETERMINISTIC_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.5
"""Deterministic seconds of the decision with the nodes there."""
_ROUNDS: Final = 2
_OUTRANKED: Final = frozenset({ReasonCode.OUTRANKED, ReasonCode.GANG_UNPLACED})
_NOT_IN_TIME: Final = (
    Reason(
        code=ReasonCode.BUDGET,
        message="the scheduler does not find a place for it beside the others in its time, though there may be one",
    ),
)


class Confirmed(NamedTuple):
    """The nodes with what starts, and the cluster with them."""

    found: AddedNodes
    snapshot: Snapshot


def find(asked: Record, batch: Batch, shapes: Sequence[NodeShape], limits: Sequence[NodeLimit] = ()) -> Confirmed:
    """Find the cheapest nodes for a batch; no pod is evicted. Everything that is promised is decided so."""
    asked = replace(asked, batch=batch, policy=replace(asked.policy, preemption=PreemptionRules()))
    search = _Search(asked, tuple(shapes), tuple(limits), solver.SolverCache(), solver.ShapeCache())
    found = search.cheapest(asked.snapshot, batch)
    for _ in range(_ROUNDS):
        there = search.with_nodes(found)
        decided = search.decided(there)
        missing = {each.pod for each in found.placements} - {each.pod for each in decided.placements}
        if not missing:
            return Confirmed(search.with_quotas(found, there), there)
        found = search.with_more(found, there, decided, missing)
    there = search.with_nodes(found)
    decided = search.decided(there)
    kept = replace(found, placements=decided.placements, allocations=decided.allocations)
    return Confirmed(search.with_quotas(with_waiting(kept, batch), there), there)


class _Search(NamedTuple):
    """What is asked, the shapes that nodes can have, and limits of nodes of several shapes together."""

    asked: Record
    shapes: tuple[NodeShape, ...]
    limits: tuple[NodeLimit, ...]
    cache: solver.SolverCache
    shared: solver.ShapeCache

    def cheapest(self, snapshot: Snapshot, batch: Batch, added: Collection[str] = ()) -> AddedNodes:
        """Find nodes for some pods; `added` has the shape of each node that is added already."""
        taken = Counter(added)
        shapes = [
            shape if shape.most is None else replace(shape, most=max(0, shape.most - taken[shape.name]))
            for shape in self.shapes
        ]
        limits = [
            replace(limit, left=limit.left - sum(size * taken[shape] for shape, size in limit.sizes))
            for limit in self.limits
        ]
        budget = Budget(seconds=_SECONDS, deterministic_seconds=_DETERMINISTIC_SECONDS, seed=self.asked.seed)
        policy, cache, shared = self.asked.policy, self.cache, self.shared
        return solver.nodes_to_add(snapshot, batch, policy, shapes, budget, limits=limits, cache=cache, shared=shared)

    def with_nodes(self, found: AddedNodes) -> Snapshot:
        """Return the cluster with the nodes of an answer."""
        shapes = {each.name: each for each in self.shapes}
        return solver.with_nodes(self.asked.snapshot, shapes, found.nodes, self.shared.made)

    def decided(self, there: Snapshot, batch: Batch | None = None) -> Plan:
        """Decide the pods as the scheduler would (default: all), in a cluster that has the nodes."""
        decision = replace(
            self.asked,
            snapshot=there,
            batch=self.asked.batch if batch is None else batch,
            policy=replace(self.asked.policy, levels=()),  # where they start does not matter
            made_after=(),
            stopped=(),
            deterministic_seconds=min(self.asked.deterministic_seconds, _AGAIN_SECONDS),
        )
        return simulator.answer(decision, self.cache).plan

    def with_quotas(self, found: AddedNodes, there: Snapshot) -> AddedNodes:
        """Say of pods which others leave nothing, and which no node helps, what quota keeps them back."""
        outranked = {each.pod for each in found.waiting if each.reasons and each.reasons[0].code in _OUTRANKED}
        if not (outranked and there.quotas):
            return found
        batch = self.asked.batch
        after = solver.snapshot_after(there, batch.pods, found.placements, found.allocations)
        left = batch.without({pod.id for pod in batch.pods} - outranked)
        plan = self.decided(after, left)
        kept_back = {
            each.pod: reasons
            for each in plan.unplaced
            if (reasons := tuple(one for one in each.reasons if one.code is ReasonCode.QUOTA_EXCEEDED))
        }
        waiting = (replace(each, reasons=kept_back.get(each.pod, each.reasons)) for each in found.waiting)
        return replace(found, waiting=tuple(waiting))

    def with_more(self, found: AddedNodes, there: Snapshot, decided: Plan, missing: Collection[PodId]) -> AddedNodes:
        """Add nodes for pods that the decision left out, beside the pods that it placed."""
        batch = self.asked.batch
        started = {each.pod for each in decided.placements}
        placed = Counter(pod.gang for pod in batch.pods if pod.id in started)
        left = batch.without({pod.id for pod in batch.pods} - set(missing))
        gangs = (replace(gang, running_count=gang.running_count + placed[gang.id]) for gang in batch.gangs)
        after = solver.snapshot_after(there, batch.pods, decided.placements, decided.allocations)
        more = self.cheapest(after, replace(left, gangs=tuple(gangs)), [each.shape for each in found.nodes])
        both = replace(
            found,
            nodes=found.nodes + more.nodes,
            placements=decided.placements + more.placements,
            allocations=decided.allocations + more.allocations,
            price=found.price + more.price,
            is_proven=False,
        )
        return with_waiting(both, batch)


def with_waiting(found: AddedNodes, batch: Batch) -> AddedNodes:
    """Let the pods wait that have no place any more; the answer is complete if the search found none for them, too."""
    placed = {each.pod for each in found.placements}
    known = {each.pod: each for each in found.waiting}
    return replace(
        found,
        waiting=tuple(
            known.get(pod.id, Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=_NOT_IN_TIME))
            for pod in batch.pods
            if pod.id not in placed
        ),
        is_complete=found.is_complete and all(pod.id in placed or pod.id in known for pod in batch.pods),
    )
