"""What is looked at to help some pods: the nodes that promise the least harm, who may go there, and what is left.

Everybody who may make room for pods of one priority: looked for once, kept while units are helped one by one.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Budget,
    DisruptionBudget,
    Pod,
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
from solver.preemption.cluster_state import Ground
from solver.preemption.node_ranking import Ranks
from solver.preemption.pdb_index import Shields
from solver.preemption.victim_usage import residents
from solver.preemption.victims import Bond, Party, candidates, pods_of
from solver.preemption.what_if import is_freed, without
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import Engine


@dataclass(slots=True, eq=False)
class Offers:
    """
    Parties with where they are, `wide` ones with devices that several nodes reach.

    `cleared` is the cluster without all of them, as it was when they were looked for.
    """

    parties: tuple[Party, ...]
    ranks: Ranks
    cleared: Snapshot
    wide: frozenset[int]
    _on_node: dict[str, list[int]] = field(default_factory=dict)
    _of_pod: dict[PodId, int] = field(default_factory=dict)
    _of_bond: dict[Bond, list[int]] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, ground: Ground, priority: int, rules: PreemptionRules, shields: Shields, protection: Protection
    ) -> "Offers":
        """Look for everybody who may go, whom no protection keeps."""
        parties = candidates(ground.whole(), priority, rules, shields, protection)
        ranks = Ranks.of(ground.stock, parties, ground.device_count if rules.frees_devices else _none)
        pools = _wide_pools(ground.origin.slices) if rules.frees_devices else frozenset()
        holders = frozenset(each.uid for claim in ground.claims_of(pools) for each in claim.reserved_for)
        wide = frozenset(
            number
            for number, party in enumerate(parties if holders else ())
            if any(pod.uid in holders for pod in party.pods)
        )
        offers = cls(parties, ranks, _cleared(ground, parties, frees_devices=rules.frees_devices), wide)
        on_node: defaultdict[str, list[int]] = defaultdict(list)
        of_bond: defaultdict[Bond, list[int]] = defaultdict(list)
        for number, party in enumerate(parties):
            for pod in party.pods:
                offers._of_pod[pod.id] = number
            for name in (party.pods[0].node_name,) if len(party.pods) == 1 else party.nodes:
                on_node[name].append(number)
            if party.bond is not None:
                of_bond[party.bond].append(number)
        offers._on_node, offers._of_bond = dict(on_node), dict(of_bond)
        return offers

    def near(self, names: Iterable[str], budgets: tuple[DisruptionBudget, ...]) -> tuple[Party, ...]:
        """
        Give who is on nodes of these names, or holds something that reaches further, in the order of their keys.

        The others of a gang come with one of it. Those are left out whose budget is used up.
        """
        numbers = {number for name in names for number in self._on_node.get(name, ())} | self.wide
        bonds = {bond for number in numbers if (bond := self.parties[number].bond) is not None}
        numbers |= {number for bond in bonds for number in self._of_bond[bond]}
        chosen = (self.parties[number] for number in sorted(numbers - self._gone))
        return tuple(party for party in chosen if party.is_allowed(budgets))

    def is_wide(self, party: Party) -> bool:
        """Whether a party holds devices that several nodes reach."""
        return self._of_pod.get(party.pods[0].id) in self.wide

    def copy(self) -> "Offers":
        """Give one that forgets who leaves from now on."""
        return dataclasses.replace(self, ranks=self.ranks.copy(), _gone=set(self._gone))

    def members(self, bond: Bond) -> int:
        """Count the parties of a bond."""
        return len(self._of_bond.get(bond, ()))

    def leave(self, pods: Collection[PodId]) -> None:
        """Note that pods are evicted; the rest of a gang that they have bonds to is looked at anew next time."""
        numbers = {self._of_pod[pod] for pod in pods if pod in self._of_pod}
        self._gone |= numbers
        self.ranks.leave(numbers)


def _none(pod: Pod) -> int:
    del pod
    return 0


def _wide_pools(slices: Iterable[ResourceSlice]) -> frozenset[PoolId]:
    """Pools that are not one node's own."""
    home: dict[PoolId, str] = {}
    wide: set[PoolId] = set()
    for each in slices:
        pool, name = PoolId(each.driver, each.pool), each.scope.node_name
        if not name or home.setdefault(pool, name) != name:
            wide.add(pool)
    return frozenset(wide)


def _cleared(ground: Ground, parties: tuple[Party, ...], *, frees_devices: bool) -> Snapshot:
    """Leave out who may go, and what is deallocated then."""
    snapshot, going = ground.whole(), pods_of(parties)
    pods = tuple(pod for pod in snapshot.pods if pod.id not in going)
    if not frees_devices:
        return replace(snapshot, pods=pods)
    uids = frozenset(pod.uid for party in parties for pod in party.pods)
    return replace(snapshot, pods=pods, claims=tuple(each for each in snapshot.claims if not is_freed(each, uids)))


class View(NamedTuple):
    """What a unit is helped in: all of the cluster, or a part that decides alone; `engine` goes with its nodes."""

    snapshot: Snapshot
    engine: Engine


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """
    Pods to be helped and the parties that may go for them, on the nodes of `names`, the most promising first.

    `problem` is that of the pods without all parties, `are_all` says that no other nodes could take them.
    `is_overfull` says that more runs on one of the nodes than there is room for: the model is strict there.
    """

    batch: Batch
    view: View
    names: Sequence[str]
    parties: tuple[Party, ...]
    problem: Problem
    are_all: bool
    is_overfull: bool
    policy: Policy
    budget: Budget

    def cleared(self, parties: Sequence[Party]) -> Snapshot:
        """Give the view without some parties."""
        return without(self.view.snapshot, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)

    def placed(self, parties: Sequence[Party], batch: Batch) -> Extracted | None:
        """Place pods of the batch, all of them, in the view without some parties."""
        return what_if.place_all(self.cleared(parties), batch, self.policy, self.budget, self.view.engine)

    def fits(self, parties: Sequence[Party]) -> bool:
        """Whether the whole batch fits without some parties; no, once the time is up."""
        return not self.budget.should_stop() and self.placed(parties, self.batch) is not None

    @property
    def nodes(self) -> list[int]:
        """The nodes in the numbers of the problem."""
        return [self.problem.inventory.node_index[name] for name in self.names]

    @property
    def held(self) -> PotentialVictims:
        """What the parties hold, in the words of the problem."""
        return residents(self.problem, self.view.snapshot, self.parties)


@dataclass(frozen=True, slots=True, eq=False)
class Lookout:
    """Looks for what concerns some pods, in a cluster as it is left so far."""

    whole: Problem
    ground: Ground
    engine: Engine
    policy: Policy
    budget: Budget

    def outlook(self, batch: Batch, offers: Offers, most_nodes: int | None = None) -> Outlook | None:
        """Choose nodes and cut them out; None where the pods cannot be placed whoever goes, or the time is up."""
        outline = prepare(offers.cleared, batch, self.policy, self.engine)
        if outline.rejected or self.budget.should_stop():
            return None
        chosen, are_all = offers.ranks.nodes(outline, self.ground.room, self.ground.free_devices)
        chosen, are_all = chosen[:most_nodes], are_all and len(chosen[:most_nodes]) == len(chosen)
        names = [outline.inventory.nodes[node].name for node in chosen]
        parties = offers.near(names, self.ground.origin.budgets)
        view = self._view(names, batch, parties)
        cleared = without(view.snapshot, pods_of(parties), frees_devices=self.policy.preemption.frees_devices)
        problem = prepare(cleared, batch, self.policy, view.engine)
        problem = problem.with_no_whole_nodes()
        is_overfull = any((free[chosen] < 0).any() for free in self.ground.room.free.values())
        return Outlook(batch, view, names, parties, problem, are_all, is_overfull, self.policy, self.budget)

    def _view(self, names: Sequence[str], batch: Batch, parties: Sequence[Party]) -> View:
        """Cut out the nodes that are looked at, unless others decide with them."""
        stock, snapshot = self.whole.inventory, self.whole.snapshot
        around = self.engine.neighbours(stock, snapshot.pods).running
        if len(names) == self.whole.node_count or not self.ground.is_local(batch, around):
            return View(self.ground.whole(), self.engine)
        others = (pod for party in parties for pod in party.pods)
        return View(self.ground.part(names, batch, others), Engine())


class PreemptionCandidate(NamedTuple):
    """Who goes, where the pods are then, what of the view is left without who goes, and if no others do less harm."""

    evicted: tuple[Party, ...]
    placed: Extracted
    view: View
    left: Snapshot
    is_proven: bool
