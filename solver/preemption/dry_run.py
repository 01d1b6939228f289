"""
The victim candidates of a tier of preemptors, and the dry run in which victims are chosen among them.

`VictimCandidates` are collected once for all preemptors of one priority. A `DryRun` is the part of the cluster in which
the victims of some preemptors are searched: the cheapest nodes with the candidates there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final, NamedTuple

from msgspec import structs

from solver.domain import (
    Batch,
    Budget,
    Pod,
    PodDisruptionBudget,
    PodId,
    Policy,
    PoolId,
    PreemptionRules,
    Protection,
    ResourceSlice,
    Snapshot,
)
from solver.extract import Extracted
from solver.model.victims import PotentialVictims
from solver.preemption import what_if
from solver.preemption.cluster_state import ClusterState
from solver.preemption.kept_pods import KeptPods
from solver.preemption.node_ranking import NodeRanking
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.victim_usage import usage_of
from solver.preemption.victims import GangQuorum, VictimUnit, pods_of, victim_units
from solver.preemption.what_if import without
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache

_MOST_OF_QUOTA: Final = 64
"""Units of a quota, beside those on the nodes that are searched, that are candidates for a pod which it keeps back."""
Preemptor = tuple[Pod, ...]
"""A pod that waits, or the pods of a gang that wait: all of them get room, or none."""


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionContext:
    """
    What stays the same while the preemptors of a plan are served; `policy` is that of `problem` without scores.

    `delayed` are pods for which no other pod is evicted yet. `lowest_planned` is the lowest priority of the pods that
    the plan places, `has_leaving` says that pods leave anyway.
    """

    problem: Problem
    policy: Policy
    budget: Budget
    cache: SolverCache
    pdbs: PdbIndex
    preemptors: tuple[Preemptor, ...]
    delayed: frozenset[PodId]
    lowest_planned: int
    has_leaving: bool
    kept: KeptPods

    @property
    def rules(self) -> PreemptionRules:
        """The rules of preemption."""
        return self.policy.preemption

    def batch(self, preemptors: Iterable[Preemptor]) -> Batch:
        """Return the pods of some preemptors with their gangs, and with the nodes that are reserved for others."""
        pods, batch = tuple(pod for preemptor in preemptors for pod in preemptor), self.problem.batch
        return structs.replace(batch, pods=pods, gangs=batch.gangs_of(pods))


@dataclass(frozen=True, slots=True, eq=False)
class VictimCandidates:
    """
    Victim units for preemptors of one priority, by their numbers; `evicted` are those that are chosen already.

    `cleared` is the cluster without all of them, as it was when they were collected. Units in `wide` hold devices that
    several nodes reach.
    """

    units: tuple[VictimUnit, ...]
    ranking: NodeRanking
    cleared: Snapshot
    wide: frozenset[int]
    by_node: dict[str, list[int]]
    by_pod: dict[PodId, int]
    by_quorum: dict[GangQuorum, list[int]]
    evicted: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        context: PreemptionContext,
        cluster: ClusterState,
        priority: int,
        protection: Protection,
        borrowers: frozenset[PodId] = frozenset(),
    ) -> "VictimCandidates":
        """Collect the units that `protection` does not protect from preemptors of a priority, and `borrowers`."""
        rules = context.rules
        units = victim_units(cluster.snapshot, priority, rules, context.pdbs, protection, borrowers=borrowers)
        by_node: defaultdict[str, list[int]] = defaultdict(list)
        by_quorum: defaultdict[GangQuorum, list[int]] = defaultdict(list)
        for number, unit in enumerate(units):
            for name in (unit.pods[0].node_name,) if len(unit.pods) == 1 else unit.nodes:
                by_node[name].append(number)
            if unit.quorum is not None:
                by_quorum[unit.quorum].append(number)
        return cls(
            units,
            NodeRanking.of(cluster.inventory, units, cluster.device_count if rules.frees_devices else lambda _: 0),
            without(cluster.snapshot, pods_of(units), frees_devices=rules.frees_devices),
            _wide_units(cluster, units) if rules.frees_devices else frozenset(),
            by_node,
            {pod.id: number for number, unit in enumerate(units) for pod in unit.pods},
            by_quorum,
        )

    def near(
        self, names: Iterable[str], budgets: tuple[PodDisruptionBudget, ...], namespaces: frozenset[str] = frozenset()
    ) -> tuple[VictimUnit, ...]:
        """
        Return the units on nodes of these names, and the wide ones, in the order of their keys.

        With them come the cheapest units of `namespaces`: wherever they run, they give back what counts for a quota.
        All units of a gang come with one of them. Units whose PodDisruptionBudget is used up are left out.
        """
        numbers = {number for name in names for number in self.by_node.get(name, ())} | self.wide
        if namespaces:
            held = (number for number, unit in enumerate(self.units) if unit.pods[0].id.namespace in namespaces)
            numbers.update(nsmallest(_MOST_OF_QUOTA, held, key=lambda number: _harm(self.units[number])))
        quorums = {quorum for number in numbers if (quorum := self.units[number].quorum) is not None}
        numbers |= {number for quorum in quorums for number in self.by_quorum[quorum]}
        chosen = (self.units[number] for number in sorted(numbers - self.evicted))
        return tuple(unit for unit in chosen if unit.is_allowed(budgets))

    def is_wide(self, unit: VictimUnit) -> bool:
        """Whether a unit holds devices that several nodes reach."""
        return self.by_pod.get(unit.pods[0].id) in self.wide

    def without(self, pods: Collection[PodId]) -> "VictimCandidates":
        """Return the candidates that are left once some pods are evicted."""
        numbers = {self.by_pod[pod] for pod in pods if pod in self.by_pod}
        return replace(self, ranking=self.ranking.without(numbers), evicted=self.evicted | numbers)


def _harm(unit: VictimUnit) -> tuple[int, int, int, int]:
    return unit.protected, unit.priority, len(unit.pods), unit.seconds


def _quota_namespaces(problem: Problem, batch: Batch) -> frozenset[str]:
    """Return the namespaces that share a quota with pods of a batch, where a limit of it may bind these."""
    quotas, wanted = problem.rules.quotas, {pod.id for pod in batch.pods}
    numbers = {
        number
        for index, limits in quotas.of_class.items()
        if any(problem.pod(position).id in wanted for position in problem.classes[index].members)
        for number in limits
    }
    return frozenset[str]().union(*(quotas.limits[number].namespaces for number in numbers))


def _wide_units(cluster: ClusterState, units: Sequence[VictimUnit]) -> frozenset[int]:
    """Number the units with a pod that holds a device of a pool which is not a single node's."""
    claims = cluster.claims_of(_wide_pools(cluster.origin.slices))
    holders = {consumer.uid for claim in claims for consumer in claim.reserved_for}
    if not holders:
        return frozenset()
    return frozenset(number for number, unit in enumerate(units) if any(pod.uid in holders for pod in unit.pods))


def _wide_pools(slices: Iterable[ResourceSlice]) -> frozenset[PoolId]:
    home: dict[PoolId, str] = {}
    wide: set[PoolId] = set()
    for each in slices:
        pool, name = PoolId(each.driver, each.pool), each.scope.node_name
        if not name or home.setdefault(pool, name) != name:
            wide.add(pool)
    return frozenset(wide)


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """
    The part of the cluster in which victims for the pods of `batch` are searched; `cache` caches for its nodes.

    `names` are the nodes, the cheapest first. `are_all` says that no other node could take the pods, `is_cut` that more
    nodes could be searched. `victims` are the candidates there, `problem` is that of the batch without them.
    """

    batch: Batch
    snapshot: Snapshot
    cache: SolverCache
    names: Sequence[str]
    victims: tuple[VictimUnit, ...]
    problem: Problem
    are_all: bool
    is_cut: bool
    policy: Policy
    budget: Budget

    def without(self, evicted: Sequence[VictimUnit]) -> Snapshot:
        """Return this part of the cluster without some victims."""
        return without(self.snapshot, pods_of(evicted), frees_devices=self.policy.preemption.frees_devices)

    def place(self, evicted: Sequence[VictimUnit], batch: Batch) -> Extracted | None:
        """Place all pods of a batch once some victims are evicted; None where not all of them fit."""
        return what_if.place_all(self.without(evicted), batch, self.policy, self.budget, self.cache)

    def fits(self, evicted: Sequence[VictimUnit]) -> bool:
        """Whether the whole batch fits once some victims are evicted; no, once the time is up."""
        return not self.budget.should_stop() and self.place(evicted, self.batch) is not None

    @property
    def nodes(self) -> list[int]:
        """The nodes by their numbers in the problem."""
        return [self.problem.inventory.node_index[name] for name in self.names]

    @property
    def usage(self) -> PotentialVictims:
        """What the victims hold, in the numbers of the problem."""
        return usage_of(self.problem, self.snapshot, self.victims)

    def candidate(self, evicted: Sequence[VictimUnit], placed: Extracted, *, is_proven: bool) -> "PreemptionCandidate":
        """Describe what was found."""
        return PreemptionCandidate(tuple(evicted), placed, self.snapshot, self.without(evicted), is_proven)


class PreemptionCandidate(NamedTuple):
    """
    Victims, and where the preemptors run without them; with `is_proven` no other victims cost less.

    `before` is the part of the cluster that was searched, `left` the same part without the victims.
    """

    evicted: tuple[VictimUnit, ...]
    placed: Extracted
    before: Snapshot
    left: Snapshot
    is_proven: bool


def dry_run(
    context: PreemptionContext,
    cluster: ClusterState,
    batch: Batch,
    candidates: VictimCandidates,
    most_nodes: int | None = None,
) -> DryRun | None:
    """Choose nodes for a batch and cut them out; None where its pods fit nowhere without all victims, or time is up."""
    outline = prepare(candidates.cleared, batch, context.policy, context.cache)
    if outline.rejected or context.budget.should_stop():
        return None
    found, are_all = candidates.ranking.nodes(outline, cluster.room, cluster.free_devices)
    chosen = found[:most_nodes]
    names = [outline.inventory.nodes[node].name for node in chosen]
    bound = _quota_namespaces(context.problem, batch)
    victims = candidates.near(names, cluster.origin.budgets, bound)
    whole = context.problem
    running = context.cache.inter_pod(whole.inventory, whole.snapshot.pods).running
    if len(names) == whole.node_count or bound or not cluster.is_local(batch, running):
        snapshot, cache = cluster.snapshot, context.cache
    else:
        snapshot, cache = cluster.part(names, batch, (pod for unit in victims for pod in unit.pods)), SolverCache()
    cleared = without(snapshot, pods_of(victims), frees_devices=context.rules.frees_devices)
    problem = prepare(cleared, batch, context.policy, cache, every_limit=bool(bound))
    problem = problem.with_no_unused_nodes()
    return DryRun(
        batch=batch,
        snapshot=snapshot,
        cache=cache,
        names=names,
        victims=victims,
        problem=problem,
        are_all=are_all and len(chosen) == len(found),
        is_cut=len(chosen) < len(found),
        policy=context.policy,
        budget=context.budget,
    )
