"""Who may be evicted: pods of lower priority, alone or as the gang that they belong to, and what protects them.

What preemption says: to the pods that wait, about whom they wait for, and to those that go.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from msgspec import structs

from solver.domain import (
    DisruptionBudget,
    GangId,
    Pod,
    PodId,
    PreemptionRules,
    Protection,
    Reason,
    ReasonCode,
    Snapshot,
    Unplaced,
    Victim,
    wording,
)
from solver.preemption.pdb_index import Shields

MOVED: Final = -(1 << 40)
"""The priority, lower than any other, of pods that the plan places and that may give their room up to go elsewhere."""
_WHOLE: Final = Protection()


class Bond(NamedTuple):
    """
    What holds the parties of a gang together: `need` of those that may go stay, or all of them go.

    Where some members may not go, the others cannot all go: then `must_stay` says that `need` of them stay anyway.
    """

    gang: GangId
    need: int
    must_stay: bool


@dataclass(slots=True, eq=False)  # not frozen: there may be as many as pods, and that makes them three times as dear
class Party:
    """
    Pods that go together: one, or all members of a gang that run.

    `seconds` is the time for which they have run, summed up: the work that is lost. `budgets` are the positions of the
    PodDisruptionBudgets that each of them is counted against. A member of a gang that has more than it needs is a party
    of its own, with a bond. `spared` counts those of them that a protection covers which does not bind here: they go
    last. `breaks_budgets` says that no PodDisruptionBudget keeps them.
    """

    pods: tuple[Pod, ...]
    seconds: int
    budgets: tuple[int, ...]
    bond: Bond | None = None
    spared: int = 0
    breaks_budgets: bool = False

    @property
    def priority(self) -> int:
        """The highest priority among them."""
        return self.pods[0].priority if len(self.pods) == 1 else max(pod.priority for pod in self.pods)

    @property
    def is_moved(self) -> bool:
        """Whether it is not evicted but placed elsewhere: it is not bound yet."""
        return self.pods[0].priority == MOVED

    @property
    def nodes(self) -> frozenset[str]:
        """Where they run."""
        return frozenset(pod.node_name for pod in self.pods)

    def is_allowed(self, budgets: Sequence[DisruptionBudget]) -> bool:
        """Whether no budget is broken by it alone."""
        if not self.budgets:
            return True
        counts = Counter(self.budgets)
        return all(count <= budgets[each].allowed for each, count in counts.items())


def pods_of(parties: Iterable[Party]) -> frozenset[PodId]:
    """Give the keys of all their pods."""
    return frozenset(pod.id for party in parties for pod in party.pods)


def candidates(
    snapshot: Snapshot, priority: int, rules: PreemptionRules, shields: Shields, protection: Protection = _WHOLE
) -> tuple[Party, ...]:
    """
    Give everybody who may make room for pods of a priority, in the order of their keys.

    A pod that several budgets select is out: the eviction subresource refuses it. So are pods whose budget is used up,
    and gangs one of whose members may not go, but for members that they have above their minimum. What `protection`
    leaves out keeps nobody.
    """
    search = _Candidates(snapshot, priority, rules, shields, protection)
    gangs: dict[GangId, list[Pod]] = {}
    found: list[Party] = []
    for pod in snapshot.pods:
        if pod.gang is not None:
            gangs.setdefault(pod.gang, []).append(pod)
        elif search.may_go(pod):
            party = search.party((pod,))
            if party is not None and party.is_allowed(snapshot.budgets):
                found.append(party)
    if not gangs:
        return tuple(found)
    for gang, pods in gangs.items():
        found += search.of_gang(gang, pods)
    return tuple(sorted(found, key=lambda party: party.pods[0].id))


class _Candidates:
    """Makes parties of pods that may make room for a priority."""

    def __init__(
        self, snapshot: Snapshot, priority: int, rules: PreemptionRules, shields: Shields, protection: Protection
    ) -> None:
        self._priority = priority
        self._protection = protection
        self._rules = rules
        self._names = frozenset(rules.scheduler_names)
        self._budgets = snapshot.budgets
        self._shields = shields
        self._gangs = {each.id: each for each in snapshot.gangs}
        self._holders = (
            frozenset(
                each.uid for claim in snapshot.claims if claim.allocation is not None for each in claim.reserved_for
            )
            if rules.minimum_run_seconds > 0
            else frozenset[str]()
        )

    def may_go(self, pod: Pod) -> bool:
        """Whether a pod may be evicted, budgets apart."""
        if pod.priority == MOVED:
            return True
        if pod.priority >= self._priority or pod.scheduler_name not in self._names:
            return False
        if pod.is_deleting or pod.is_terminal or (self._protection.annotation and not pod.is_preemptible):
            return False
        return not self._protection.minimum_run or self._has_run(pod)

    def _has_run(self, pod: Pod) -> bool:
        """Whether a pod has run as long as is its due."""
        ran = self._rules.now - pod.started if pod.started else 0
        return ran >= self._rules.minimum_run_seconds or pod.uid not in self._holders

    def party(self, pods: tuple[Pod, ...], bond: Bond | None = None) -> Party | None:
        """Make a party, unless several budgets select one of its pods."""
        if pods[0].priority == MOVED:
            return Party(pods, 0, (), bond)
        if self._protection != _WHOLE:
            return self._unprotected(pods, bond)
        if len(pods) == 1 and not self._budgets:
            return Party(pods, max(0, self._rules.now - pods[0].started) if pods[0].started else 0, (), bond)
        counted = [self._shields.over(pod) for pod in pods]
        if any(len(each) > 1 for each in counted):
            return None
        seconds = sum(max(0, self._rules.now - pod.started) for pod in pods if pod.started)
        return Party(pods, seconds, tuple(each for budgets in counted for each in budgets), bond)

    def _unprotected(self, pods: tuple[Pod, ...], bond: Bond | None) -> Party | None:
        """Make a party where some protection does not bind, which counts those that it covers."""
        counted = [self._shields.over(pod) for pod in pods]
        if self._protection.budgets and any(len(each) > 1 for each in counted):
            return None
        spared = sum(
            not (pod.is_preemptible and self._has_run(pod) and self._is_evictable(over))
            for pod, over in zip(pods, counted, strict=True)
        )
        seconds = sum(max(0, self._rules.now - pod.started) for pod in pods if pod.started)
        budgets = tuple(each for over in counted for each in over) if self._protection.budgets else ()
        return Party(pods, seconds, budgets, bond, spared, breaks_budgets=not self._protection.budgets)

    def _is_evictable(self, over: Sequence[int]) -> bool:
        return len(over) <= 1 and all(self._budgets[each].allowed > 0 for each in over)

    def of_gang(self, gang: GangId, pods: Sequence[Pod]) -> Iterator[Party]:
        """Make the parties of a gang whose running pods these are; of one that nobody knows, all go or none."""
        known = self._gangs.get(gang)
        need = len(pods) if known is None else known.needed(len(pods))
        need = need if self._protection.gangs else 0
        going = [pod for pod in pods if self.may_go(pod)]
        if need == len(pods):
            whole = self.party(tuple(pods)) if len(going) == len(pods) else None
            if whole is not None and whole.is_allowed(self._budgets):
                yield whole
            return
        alone = [party for pod in going if (party := self.party((pod,))) is not None]
        alone = [party for party in alone if party.is_allowed(self._budgets)]
        staying = len(pods) - len(alone)
        bond = Bond(gang, need - staying, must_stay=staying > 0) if need > staying else None
        for party in alone:
            yield replace(party, bond=bond)


def bonds(parties: Iterable[Party]) -> dict[Bond, list[int]]:
    """Give the positions of the parties of each bond."""
    found: defaultdict[Bond, list[int]] = defaultdict(list)
    for number, party in enumerate(parties):
        if party.bond is not None:
            found[party.bond].append(number)
    return dict(found)


_SHOWN: Final = 3
LATER: Final = Reason(code=ReasonCode.BUDGET, message="preemption: it is tried again soon")


def told(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    """Add a reason to those of a pod; that it waits for others comes first."""
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    reasons = (reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason)
    return structs.replace(unplaced, reasons=reasons)


def victims(units: Sequence[Sequence[Pod]], evicted: Sequence[Party]) -> Iterator[Victim]:
    """Name everybody who goes, and for whom, as far as its own namespace goes."""
    others = sum(map(len, units[1:]))
    more = f" and {others} more of its priority" if others else ""
    for party in evicted:
        alone = "" if len(party.pods) == 1 else f", with the {len(party.pods)} pods of its gang"
        for pod in party.pods:
            message = f"makes room for {_name(units[0], pod.id.namespace)}{more}{alone}"
            yield Victim(
                pod=pod.id,
                pod_uid=pod.uid,
                node=pod.node_name,
                message=message,
                breaks_budgets=party.breaks_budgets,
            )


def _name(unit: Sequence[Pod], reader: str) -> str:
    first = unit[0]
    if len(unit) > 1:
        return wording.seen(first.gang or first.id, reader)
    return f"{wording.seen(first.id, reader)} of priority {first.priority}"


def preempting(nodes: Sequence[str], going: Sequence[Victim], reader: str) -> Reason:
    """Say to the readers of a namespace where a unit of it waits (no nodes: not said), and for whom."""
    where = f" on {', '.join(dict.fromkeys(nodes))}" if nodes else ""
    if not going:
        return Reason(code=ReasonCode.PREEMPTING, message=f"preemption: waits{where} for pods that are leaving")
    names = wording.several([each.pod for each in going], reader, _SHOWN)
    message = f"preemption: waits{where} until pods of lower priority are gone: {names}"
    return Reason(code=ReasonCode.PREEMPTING, message=message)


def no_victims(node_count: int) -> Reason:
    """Say that nobody's leaving helps, in kube-scheduler's words."""
    message = (
        f"preemption: 0/{node_count} nodes are available: {node_count} No preemption victims found for incoming pod"
    )
    return Reason(code=ReasonCode.NO_VICTIMS, message=message)


def held_back(needed: int, left: int) -> Reason:
    """Say that the bound on evictions stands in the way."""
    message = (
        f"preemption: {needed} pods would have to be evicted, and the bound on evictions leaves {max(0, left)} now"
    )
    return Reason(code=ReasonCode.BUDGET, message=message)
