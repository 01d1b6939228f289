"""The cluster as it would be without some pods, with what a plan places or with more nodes, and what pods fit then."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from solver import greedy
from solver.domain import (
    FINALIZER,
    HOSTNAME,
    AddedNode,
    Batch,
    Budget,
    Claim,
    ClaimAllocation,
    ConsumerReference,
    Node,
    NodeShape,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Plan,
    Pod,
    PodDisruptionBudget,
    PodId,
    Policy,
    ResourceSlice,
    Snapshot,
    with_used,
)
from solver.extract import Extracted, extract
from solver.model.objective import best_of
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.rules.node_fit.label_index import LabelIndex
from solver.search import stages
from solver.solution import Solution

MadeNodes = dict[AddedNode, tuple[Node, tuple[ResourceSlice, ...]]]
"""Nodes that could be added, with their slices."""


def place_all(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: SolverCache) -> Extracted | None:
    """Place every pod of a batch, or give None."""
    problem = prepare(snapshot, batch, policy, cache)
    found = solution(problem, budget)
    placed = None if found is None else extract(problem, found)
    # The limits of volumes are necessary and not sufficient: extraction may drop pods that the model places.
    return None if placed is None or len(placed.placements) < len(batch.pods) else placed


def place(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, cache: SolverCache) -> Extracted:
    """Place as many pods of a batch as possible."""
    problem = prepare(snapshot, batch, policy, cache)
    return extract(problem, _most(problem, budget))


def solution(problem: Problem, budget: Budget) -> Solution | None:
    """Place every pod of a problem, or give None."""
    found = None if problem.rejected else _most(problem, budget)
    return found if found is not None and _is_complete(problem, found) else None


def _most(problem: Problem, budget: Budget) -> Solution:
    """Place pods greedily, and by search where that leaves some out."""
    start = best_of(problem, greedy.candidates(problem))
    if _is_complete(problem, start) or budget.should_stop():
        return start
    return stages.search(problem, start, budget).solution


def _is_complete(problem: Problem, found: Solution) -> bool:
    return len(found.choices) == len(problem.batch.pods)


def without(snapshot: Snapshot, gone: Collection[PodId], *, frees_devices: bool) -> Snapshot:
    """
    Take pods away; with `frees_devices` also the allocations that are given up then.

    A claim is deallocated where all consumers are among the pods, none of them is a PodGroup, and the finalizer is set.
    """
    if not gone:
        return snapshot
    going = frozenset(gone)
    uids = frozenset(pod.uid for pod in snapshot.pods if pod.id in going)
    pods = tuple(pod for pod in snapshot.pods if pod.id not in going)
    claims = tuple(_left(claim, uids) for claim in snapshot.claims) if frees_devices else snapshot.claims
    return replace(snapshot, pods=pods, claims=claims)


def deallocated(snapshot: Snapshot, waiting: Iterable[Pod]) -> Snapshot:
    """Take allocations away whose consumers are all gone already: the claim controller is about to do that."""
    alive = frozenset(pod.uid for pod in (*snapshot.pods, *waiting))
    claims = tuple(
        replace(claim, allocation=None, reserved_for=(), device_status=())
        if claim.allocation is not None and is_freed(claim, frozenset(each.uid for each in claim.reserved_for) - alive)
        else claim
        for claim in snapshot.claims
    )
    return replace(snapshot, claims=claims)


def is_freed(claim: Claim, uids: Collection[str]) -> bool:
    """Whether a claim is really deallocated once the pods of these uids are gone."""
    return (
        claim.allocation is not None
        and bool(claim.reserved_for)
        and FINALIZER in claim.finalizers
        and all(each.resource == "pods" and each.uid in uids for each in claim.reserved_for)
    )


def _left(claim: Claim, uids: frozenset[str]) -> Claim:
    left = [each for each in claim.reserved_for if each.uid not in uids]
    if claim.allocation is None or len(left) == len(claim.reserved_for):
        return claim
    if not left and is_freed(claim, uids):
        return replace(claim, allocation=None, reserved_for=(), device_status=())
    return replace(claim, reserved_for=tuple(left))


def snapshot_after(
    snapshot: Snapshot, pods: Iterable[Pod], placements: Iterable[Placement], allocations: Iterable[ClaimAllocation]
) -> Snapshot:
    """Put pods where placements say, with their claims allocated and reserved."""
    by_id = {pod.id: pod for pod in pods}
    placed = {each.pod: each for each in placements if each.pod in by_id}
    if not placed:
        return snapshot
    made = {each.claim: each.allocation for each in allocations}
    consumers: dict[object, list[ConsumerReference]] = {}
    extra: list[Claim] = []
    seated: list[Pod] = []
    for placement in placed.values():
        pod = by_id[placement.pod]
        seated.append(placement.seated(pod))
        reference = ConsumerReference.of(pod.id, pod.uid)
        for claim in placement.claims:
            consumers.setdefault(claim, []).append(reference)
        if placement.extended_resource_claim is not None:
            extra.append(placement.extended_resource_claim.as_claim(pod.uid))
    claims = tuple(
        replace(
            claim,
            allocation=made.get(claim.id, claim.allocation),
            reserved_for=tuple(dict.fromkeys((*claim.reserved_for, *consumers.get(claim.id, ())))),
            finalizers=tuple(dict.fromkeys((*claim.finalizers, FINALIZER))),
        )
        if claim.id in made or claim.id in consumers
        else claim
        for claim in (*snapshot.claims, *extra)
    )
    order = sorted((*(pod for pod in snapshot.pods if pod.id not in placed), *seated), key=lambda pod: pod.id)
    return replace(
        snapshot,
        pods=tuple(order),
        claims=tuple(sorted(claims, key=lambda claim: claim.id)),
        holds=with_used(snapshot.holds, (each.place for each in placed.values() if each.place)),
    )


def after_plan(snapshot: Snapshot, batch: Batch, plan: Plan) -> Snapshot:
    """Return the snapshot after a plan, while its victims are still leaving."""
    placed = {each.pod for each in plan.placements}
    node_of = {each.pod: each.node for preemption in plan.preemptions for each in preemption.placements}
    waiting = {pod.id: pod for pod in snapshot.nominated if pod.id not in placed}
    waiting |= {pod.id: replace(pod, nominated_node_name=node_of[pod.id]) for pod in batch.pods if pod.id in node_of}
    victims = {victim.pod for each in plan.preemptions for victim in each.victims}
    gangs = {each.id: each for each in (*snapshot.gangs, *batch.gangs)}
    placed_snapshot = snapshot_after(snapshot, batch.pods, plan.placements, plan.allocations)
    return replace(
        _with_volumes(placed_snapshot, plan.placements),
        nominated=tuple(waiting[key] for key in sorted(waiting)),
        leaving=tuple(sorted({*snapshot.leaving, *victims})),
        gangs=tuple(gangs[key] for key in sorted(gangs)),
    )


def _with_volumes(snapshot: Snapshot, placements: Sequence[Placement]) -> Snapshot:
    """Bind volumes to their claims, and set the selected node of volumes to provision."""
    bound = {each.claim: (each, placement.node) for placement in placements for each in placement.volumes}
    if not bound:
        return snapshot
    taken = {each.volume: each for each, _ in bound.values() if each.volume}

    def volume(each: PersistentVolume) -> PersistentVolume:
        binding = taken.get(each.name)
        if binding is None:
            return each
        return replace(each, claim=binding.claim, claim_uid=binding.claim_uid)

    def claim(each: PersistentVolumeClaim) -> PersistentVolumeClaim:
        binding, node = bound.get(each.id, (None, ""))
        if binding is None:
            return each
        if binding.volume:
            return replace(each, volume=binding.volume, is_bind_completed=True)
        return replace(each, selected_node=binding.made_on(node))

    return replace(
        snapshot,
        volumes=tuple(volume(each) for each in snapshot.volumes),
        volume_claims=tuple(claim(each) for each in snapshot.volume_claims),
    )


def spent(snapshot: Snapshot, evicted: Iterable[Pod]) -> Snapshot:
    """Count evictions against the PodDisruptionBudgets of pods that did not leave before."""
    labels: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for pod in evicted if snapshot.budgets else ():
        if not pod.is_deleting:
            labels[pod.id.namespace].append(dict(pod.labels))
    if not labels:
        return snapshot
    indexes = {namespace: LabelIndex(found) for namespace, found in labels.items()}
    return replace(snapshot, budgets=tuple(_spent(each, indexes.get(each.namespace)) for each in snapshot.budgets))


def _spent(budget: PodDisruptionBudget, evicted: LabelIndex | None) -> PodDisruptionBudget:
    """Count the evicted of its namespace that a budget selects; one that allows none anyway stays as it is."""
    if evicted is None or budget.selector is None or budget.allowed <= 0:
        return budget
    count = evicted.selected(budget.selector).bit_count()
    return replace(budget, allowed=max(0, budget.allowed - count)) if count else budget


def with_nodes(
    snapshot: Snapshot, shapes: dict[str, NodeShape], added: tuple[AddedNode, ...], made: MadeNodes | None = None
) -> Snapshot:
    """
    Return the cluster with some nodes more.

    `made` has the nodes of these shapes that were made before, and gets those that are new: of a slice that is the same
    object everything is known already.
    """
    made = {} if made is None else made
    nodes, slices, storage = list(snapshot.nodes), list(snapshot.slices), list(snapshot.node_drivers)
    for each in added:
        shape = shapes[each.shape]
        if each not in made:
            copies = (_slice(one, shape.node.name, each.name, index) for index, one in enumerate(shape.slices))
            made[each] = _node(shape.node, each.name), tuple(copies)
        node, of_node = made[each]
        nodes.append(node)
        slices += of_node
        if shape.storage is not None:
            storage.append(replace(shape.storage, node=each.name))
    return replace(
        snapshot,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        slices=tuple(sorted(slices, key=lambda one: one.name)),
        node_drivers=tuple(sorted(storage, key=lambda one: one.node)),
    )


def _node(node: Node, name: str) -> Node:
    labels = dict(node.labels) | {HOSTNAME: name}
    return replace(node, name=name, uid=f"uid-of-{name}", labels=tuple(sorted(labels.items())))


def _slice(one: ResourceSlice, of_shape: str, name: str, index: int) -> ResourceSlice:
    """Copy a slice of the shape's node to a new node; devices that name their node by themselves follow."""
    pool = name if one.pool in {of_shape, ""} else f"{name}/{one.pool}"
    scope = one.scope if one.scope.per_device else replace(one.scope, node_name=name)
    devices = tuple(
        each if each.scope is None else replace(each, scope=replace(each.scope, node_name=name)) for each in one.devices
    )
    return replace(one, name=f"{name}-{index}", pool=pool, scope=scope, devices=devices)
