"""Everybody who may make room for pods of one priority: looked for once, kept while units are helped one by one."""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from solver.domain import DisruptionBudget, Pod, PodId, PoolId, PreemptionRules, Protection, ResourceSlice, Snapshot
from solver.preemption.ground import Ground
from solver.preemption.parties import Bond, Party, candidates, pods_of
from solver.preemption.ranking import Ranks
from solver.preemption.shields import Shields
from solver.preemption.vacancy import is_freed


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
