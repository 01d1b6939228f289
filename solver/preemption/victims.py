"""
Which running pods may be evicted: pods of lower priority, alone or as the gang that they belong to.

What protects a pod: the annotation dovetail.dev/preemptible, PodDisruptionBudgets, its gang, its minimum run time.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from solver.domain import Gang, GangId, Pod, PodDisruptionBudget, PodId, PreemptionRules, Protection, Snapshot
from solver.preemption.pdb_index import PdbIndex

MOVABLE: Final = -(1 << 40)
"""The priority, lower than any other, of pods that this plan places and that may be placed elsewhere instead."""
_FULL: Final = Protection()


class GangQuorum(NamedTuple):
    """
    What ties the victim units of one gang together: `need` of them stay, or all of them go.

    With `must_stay` some members of the gang cannot be evicted: then `need` of these units stay in any case.
    """

    gang: GangId
    need: int
    must_stay: bool


@dataclass(slots=True, eq=False)  # not frozen: there may be one for each pod, and creation would be three times slower
class VictimUnit:
    """
    Running pods that are evicted together: one pod, or all running members of a gang; with the priority of their group.

    `seconds` is the sum of their run times, the work that is lost. `budgets` has for each pod the positions of the
    PodDisruptionBudgets that count it. A member that its gang can spare is a unit by itself, with a quorum. `protected`
    counts the pods with a protection that does not bind here; they are evicted last. `breaks_budgets` says that
    PodDisruptionBudgets are ignored.
    """

    pods: tuple[Pod, ...]
    seconds: int
    budgets: tuple[int, ...]
    quorum: GangQuorum | None = None
    protected: int = 0
    breaks_budgets: bool = False

    @property
    def priority(self) -> int:
        """The highest priority among the pods."""
        return self.pods[0].priority if len(self.pods) == 1 else max(pod.priority for pod in self.pods)

    @property
    def is_moved(self) -> bool:
        """Whether this is a pod of this plan, which is placed elsewhere and not evicted."""
        return self.pods[0].priority == MOVABLE

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on which the pods run."""
        return frozenset(pod.node_name for pod in self.pods)

    def is_allowed(self, budgets: Sequence[PodDisruptionBudget]) -> bool:
        """Whether no budget is broken by the eviction of this unit alone."""
        if not self.budgets:
            return True
        counts = Counter(self.budgets)
        return all(count <= budgets[each].allowed for each, count in counts.items())


def pods_of(victims: Iterable[VictimUnit]) -> frozenset[PodId]:
    """Return the keys of all pods of some units."""
    return frozenset(pod.id for victim in victims for pod in victim.pods)


def victim_units(
    snapshot: Snapshot,
    priority: int,
    rules: PreemptionRules,
    pdbs: PdbIndex,
    protection: Protection = _FULL,
    *,
    borrowers: frozenset[PodId] = frozenset(),
) -> tuple[VictimUnit, ...]:
    """
    Return what may be evicted for pods of a priority, in the order of the pods' keys.

    Left out are pods that several budgets select (the eviction subresource refuses them), and pods whose budget is used
    up. A gang with a member that may not be evicted is left out too, except for members above its minimum. `protection`
    says which of these protections bind. `borrowers` are pods of the same priority that may be reclaimed.
    """
    search = _Search(snapshot, priority, rules, pdbs, protection)
    search.borrowers = borrowers
    gangs: dict[GangId, list[Pod]] = {}
    found: list[VictimUnit] = []
    for pod in snapshot.pods:
        if pod.gang is not None:
            gangs.setdefault(pod.gang, []).append(search.levelled(pod))
        elif search.may_be_evicted(pod):
            victim = search.unit((pod,))
            if victim is not None and victim.is_allowed(snapshot.budgets):
                found.append(victim)
    if not gangs:
        return tuple(found)
    for gang, pods in gangs.items():
        found += search.of_gang(gang, pods)
    return tuple(sorted(found, key=lambda victim: victim.pods[0].id))


def victim_priority(pod: Pod, gangs: Mapping[GangId, Gang]) -> int:
    """Return the priority of a victim: that of its PodGroup, if it has one (KEP-5710)."""
    gang = gangs.get(pod.gang) if pod.gang is not None else None
    return pod.priority if gang is None or gang.priority is None else gang.priority


def seconds_to_next(snapshot: Snapshot, priority: int, rules: PreemptionRules) -> int | None:
    """
    Return the seconds until a pod has run for its minimum time that may be evicted for a priority then, None if none.

    The minimum time of a pod that has not started yet begins now at the earliest.
    """
    gangs, holders = {each.id: each for each in snapshot.gangs}, _holders(snapshot, rules)
    left = (
        rules.minimum_run_seconds - ran_seconds(pod, rules)
        for pod in snapshot.pods
        if pod.uid in holders
        and pod.scheduler_name in rules.scheduler_names
        and pod.is_preemptible
        and not (pod.is_deleting or pod.is_terminal)
        and victim_priority(pod, gangs) < priority
    )
    return min((seconds for seconds in left if seconds > 0), default=None)


def seconds_to_reclaim(snapshot: Snapshot, priorities: Collection[int], rules: PreemptionRules) -> int | None:
    """Return the seconds until a pod of one of these priorities has run for as long as reclaim waits; None if none."""
    gangs, holders = {each.id: each for each in snapshot.gangs}, holders_of_devices(snapshot)
    left = (
        rules.reclaim_minimum_run_seconds - ran_seconds(pod, rules)
        for pod in snapshot.pods
        if pod.uid in holders
        and pod.scheduler_name in rules.scheduler_names
        and not (pod.is_deleting or pod.is_terminal)
        and victim_priority(pod, gangs) in priorities
    )
    return min((seconds for seconds in left if seconds > 0), default=None)


def _holders(snapshot: Snapshot, rules: PreemptionRules) -> frozenset[str]:
    """Return the uids of what holds devices, where that matters: pods without any have no minimum time."""
    return holders_of_devices(snapshot) if rules.minimum_run_seconds > 0 else frozenset()


def holders_of_devices(snapshot: Snapshot) -> frozenset[str]:
    """Return the uids of what has devices reserved."""
    allocated = (claim for claim in snapshot.claims if claim.allocation is not None)
    return frozenset(each.uid for claim in allocated for each in claim.reserved_for)


def ran_seconds(pod: Pod, rules: PreemptionRules) -> int:
    """Return for how long a pod has run; 0 before it has started."""
    return rules.now - pod.started if pod.started else 0


class _Search:
    """Forms the victim units for preemptors of one priority."""

    def __init__(
        self, snapshot: Snapshot, priority: int, rules: PreemptionRules, pdbs: PdbIndex, protection: Protection
    ) -> None:
        self._priority = priority
        self._protection = protection
        self._rules = rules
        self._names = frozenset(rules.scheduler_names)
        self._budgets = snapshot.budgets
        self._pdbs = pdbs
        self._gangs = {each.id: each for each in snapshot.gangs}
        self._holders = _holders(snapshot, rules)
        self.borrowers: frozenset[PodId] = frozenset()

    def may_be_evicted(self, pod: Pod) -> bool:
        """Whether a pod may be evicted, budgets apart."""
        if pod.priority == MOVABLE:
            return True
        is_reclaimed = pod.id in self.borrowers
        if (pod.priority >= self._priority and not is_reclaimed) or pod.scheduler_name not in self._names:
            return False
        if pod.is_deleting or pod.is_terminal or (self._protection.annotation and not pod.is_preemptible):
            return False
        return is_reclaimed or not self._protection.minimum_run or self._has_run(pod)

    def levelled(self, pod: Pod) -> Pod:
        """Return a pod with the priority that it has as a victim."""
        if pod.priority == MOVABLE or (priority := victim_priority(pod, self._gangs)) == pod.priority:
            return pod
        return msgspec.structs.replace(pod, priority=priority)

    def _has_run(self, pod: Pod) -> bool:
        """Whether a pod holds no devices, or has run for the minimum time."""
        return ran_seconds(pod, self._rules) >= self._rules.minimum_run_seconds or pod.uid not in self._holders

    def unit(self, pods: tuple[Pod, ...], quorum: GangQuorum | None = None) -> VictimUnit | None:
        """Form a unit; None where several budgets select one of its pods. Protections that do not bind are counted."""
        if pods[0].priority == MOVABLE:
            return VictimUnit(pods, 0, (), quorum)
        protection = self._protection
        seconds = sum([max(0, self._rules.now - pod.started) for pod in pods if pod.started])
        if not self._budgets and protection == _FULL:
            return VictimUnit(pods, seconds, (), quorum)
        counted = [self._pdbs.over(pod) for pod in pods]
        if protection.budgets and any(len(over) > 1 for over in counted):
            return None
        lifted = 0
        if protection != _FULL:
            lifted = sum(not self._is_unprotected(pod, over) for pod, over in zip(pods, counted, strict=True))
        budgets = tuple(each for over in counted for each in over) if protection.budgets else ()
        return VictimUnit(pods, seconds, budgets, quorum, lifted, breaks_budgets=not protection.budgets)

    def _is_unprotected(self, pod: Pod, over: Sequence[int]) -> bool:
        is_allowed = len(over) <= 1 and all(self._budgets[each].allowed > 0 for each in over)
        return is_allowed and pod.is_preemptible and self._has_run(pod)

    def of_gang(self, gang: GangId, pods: Sequence[Pod]) -> Iterator[VictimUnit]:
        """Form the units of a gang with these running pods; of a gang without facts all pods go or none."""
        known = self._gangs.get(gang)
        need = len(pods) if known is None else known.needed(len(pods))
        need = need if self._protection.gangs else 0
        going = [pod for pod in pods if self.may_be_evicted(pod)]
        if need == len(pods):
            whole = self.unit(tuple(pods)) if len(going) == len(pods) else None
            if whole is not None and whole.is_allowed(self._budgets):
                yield whole
            return
        alone = [victim for pod in going if (victim := self.unit((pod,))) is not None]
        alone = [victim for victim in alone if victim.is_allowed(self._budgets)]
        staying = len(pods) - len(alone)
        quorum = GangQuorum(gang, need - staying, must_stay=staying > 0) if need > staying else None
        for victim in alone:
            yield replace(victim, quorum=quorum)


def quorums(victims: Iterable[VictimUnit]) -> dict[GangQuorum, list[int]]:
    """Return the positions of the victim units of each gang quorum."""
    found: defaultdict[GangQuorum, list[int]] = defaultdict(list)
    for number, victim in enumerate(victims):
        if victim.quorum is not None:
            found[victim.quorum].append(number)
    return dict(found)
