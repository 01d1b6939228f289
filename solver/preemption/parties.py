"""Who may be evicted: pods of lower priority, alone or as the gang that they belong to, and what protects them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from solver.domain import DisruptionBudget, GangId, Pod, PodId, PreemptionRules, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Party:
    """
    Pods that go together: one, or all members of a gang that run.

    `seconds` is the time for which they have run, summed up: the work that is lost. `budgets` are the positions of the
    PodDisruptionBudgets that each of them is counted against.
    """

    pods: tuple[Pod, ...]
    seconds: int
    budgets: tuple[int, ...]

    @property
    def priority(self) -> int:
        """The highest priority among them."""
        return max(pod.priority for pod in self.pods)

    @property
    def nodes(self) -> frozenset[str]:
        """Where they run."""
        return frozenset(pod.node_name for pod in self.pods)


def pods_of(parties: Iterable[Party]) -> frozenset[PodId]:
    """Give the keys of all their pods."""
    return frozenset(pod.id for party in parties for pod in party.pods)


def candidates(snapshot: Snapshot, priority: int, rules: PreemptionRules) -> tuple[Party, ...]:
    """
    Give everybody who may make room for pods of a priority, in the order of their keys.

    A pod that several budgets select is out: the eviction subresource refuses it. So are pods whose budget is used up,
    and gangs one of whose members may not go.
    """
    holders = frozenset(
        each.uid for claim in snapshot.claims if claim.allocation is not None for each in claim.reserved_for
    )
    shields = Shields(snapshot.budgets)
    members: defaultdict[GangId | PodId, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        members[pod.id if pod.gang is None else pod.gang].append(pod)
    found = []
    for pods in members.values():
        counted = [shields.over(pod) for pod in pods]
        if all(_may_go(pod, priority, rules, holds_devices=pod.uid in holders) for pod in pods) and all(
            len(each) <= 1 for each in counted
        ):
            seconds = sum(max(0, rules.now - pod.started) for pod in pods if pod.started)
            party = Party(tuple(pods), seconds, tuple(each for budgets in counted for each in budgets))
            if all(party.budgets.count(each) <= snapshot.budgets[each].allowed for each in party.budgets):
                found.append(party)
    return tuple(found)


def _may_go(pod: Pod, priority: int, rules: PreemptionRules, *, holds_devices: bool) -> bool:
    if pod.scheduler_name not in rules.scheduler_names or pod.priority >= priority or not pod.is_preemptible:
        return False
    if pod.is_deleting or pod.is_terminal:
        return False
    ran = rules.now - pod.started if pod.started else 0
    return not holds_devices or ran >= rules.minimum_run_seconds


class Shields:
    """Finds the budgets that count a pod."""

    def __init__(self, budgets: tuple[DisruptionBudget, ...]) -> None:
        self._by_namespace: defaultdict[str, list[tuple[int, DisruptionBudget]]] = defaultdict(list)
        for position, budget in enumerate(budgets):
            self._by_namespace[budget.namespace].append((position, budget))

    def over(self, pod: Pod) -> tuple[int, ...]:
        """
        Give the positions of the budgets that select a pod.

        Stale ones grant nothing: they stand twice, so that the pod is out.
        """
        known = self._by_namespace.get(pod.id.namespace)
        if not known:
            return ()
        labels = dict(pod.labels)
        found = [(position, budget) for position, budget in known if budget.selects(pod.id.namespace, labels)]
        return tuple(position for position, budget in found for _ in range(2 if budget.is_stale else 1))
