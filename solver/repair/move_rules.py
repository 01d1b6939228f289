"""Which pods may be moved, why the others stay, which are moved together, and what a move costs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import (
    PREEMPTIBLE,
    RESTARTS_ALONE,
    RESTARTS_WHOLE,
    GangId,
    Harm,
    Pod,
    PodId,
    Policy,
    RepairRules,
    Snapshot,
    loose_gangs,
    wording,
)
from solver.domain.gang import DISRUPT_ALL
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.victims import holders_of_devices

_WHOLE_BY_LABEL: Final = ("leaderworkerset.sigs.k8s.io/group-key", "jobset.sigs.k8s.io/jobset-name")
"""
Labels of pods that a controller recreates together when one of them ends.

LeaderWorkerSet does so by default (RecreateGroupOnPodRestart), JobSet by its failure policy. Neither policy stands in
the pods, so all of them count, except where an annotation says that they restart alone.
"""


class MoveCost(NamedTuple):
    """What the move of one pod costs, in the order of importance."""

    priority: int
    lost_seconds: int
    moved_before: int


@dataclass(slots=True, eq=False)
class MoveRules:
    """Which pods may be moved for a goal of a priority, and why the others may not."""

    snapshot: Snapshot
    policy: Policy
    rules: RepairRules
    priority: int
    pdbs: PdbIndex = field(init=False)
    _special: frozenset[tuple[str, str]] = field(init=False)
    _holders: frozenset[str] = field(init=False)
    _moved_before: dict[str, int] = field(init=False)
    _settled: frozenset[str] = field(init=False)
    _resting: frozenset[str] = field(init=False)
    _loose: frozenset[GangId] = field(init=False)

    def __post_init__(self) -> None:
        self.pdbs = PdbIndex(self.snapshot)
        self._special = frozenset(
            (claim.id.namespace, claim.owner_pod_uid)
            for claim in self.snapshot.claims
            if claim.is_extended_resource_claim
        )
        self._holders = holders_of_devices(self.snapshot) if self.rules.minimum_run_seconds else frozenset()
        self._moved_before = dict(self.rules.moved_before)
        self._settled, self._resting = frozenset(self.rules.settled), frozenset(self.rules.resting)
        self._loose = loose_gangs(self.snapshot.gangs)

    def why_not_moved(self, pod: Pod) -> str:
        """Say why a pod may not be moved to make room; empty for one that may."""
        if (why := self.why_not_evicted(pod)) != "":
            return why
        if pod.gang is not None and pod.gang not in self._loose:
            of_workload = f" of {pod.workload}" if pod.workload else ""
            return f"it belongs to gang {pod.gang.namespace}/{pod.gang.name}{of_workload}"
        if whole_group(pod) is not None:
            return "all pods of its set restart when one is moved"
        if pod.priority > self.priority:
            return f"its priority {pod.priority} is above {self.priority}"
        return self._moved_lately(pod)

    def why_not_evicted(self, pod: Pod) -> str:
        """Say why a pod may not be moved though it has to leave; empty for one that may."""
        if pod.scheduler_name not in self.policy.preemption.scheduler_names:
            return f"another scheduler placed it: {pod.scheduler_name or 'none is named'}"
        if pod.controller is None:
            return wording.NO_CONTROLLER
        if pod.belongs_to_node:
            return "it belongs to its node"
        if pod.is_deleting:
            return "it is being deleted already"
        if (pod.id.namespace, pod.uid) in self._special:
            return "its devices are those of an extended resource"
        return _kept(pod) or self._too_young(pod) or self._shielded(pod)

    def _moved_lately(self, pod: Pod) -> str:
        if pod.uid in self._settled:
            return "it was moved a short time ago"
        if pod.controller is not None and pod.controller.uid in self._resting:
            return "a pod of its controller was moved a short time ago"
        return ""

    def _too_young(self, pod: Pod) -> str:
        least = self.rules.minimum_run_seconds
        if pod.uid in self._holders and self._ran_seconds(pod) < least:
            return f"it has not run for {least} s yet"
        return ""

    def _shielded(self, pod: Pod) -> str:
        over = [self.snapshot.budgets[each] for each in dict.fromkeys(self.pdbs.over(pod))]
        names = ", ".join(each.name for each in over)
        if over and self.pdbs.are_too_long(pod.id.namespace):
            return "the PodDisruptionBudgets of its namespace have more requirements than are looked at"
        if len(over) > 1:
            return f"several PodDisruptionBudgets select it, and the eviction is refused then: {names}"
        if any(each.is_stale for each in over):
            return f"PodDisruptionBudget {names} has changed and its status has not followed yet"
        if any(each.allowed <= 0 for each in over):
            return f"PodDisruptionBudget {names} allows no disruption now"
        return ""

    def _ran_seconds(self, pod: Pod) -> int:
        return max(0, self.rules.now - pod.started) if pod.started else 0

    def cost(self, pod: Pod) -> MoveCost:
        """Return what the move of a pod costs: the work since its start, or since the checkpoint that it declares."""
        lost = self._ran_seconds(pod)
        if pod.repair_note is not None and pod.repair_note.checkpointed:
            age = max(0, self.rules.now - pod.repair_note.checkpointed)
            lost = min(lost, age, self.rules.most_checkpoint_seconds)
        owner = "" if pod.controller is None else pod.controller.uid
        return MoveCost(pod.priority, lost, self._moved_before.get(owner, 0))

    def harm(self, pods: Iterable[Pod]) -> Harm:
        """Sum up what moves cost."""
        costs = [self.cost(pod) for pod in pods]
        priorities = Counter(each.priority for each in costs)
        return Harm(
            priorities=tuple(sorted(priorities.items(), reverse=True)),
            lost_seconds=sum(each.lost_seconds for each in costs),
            moved_before=sum(each.moved_before for each in costs),
        )

    def moved_together(self, leaving: Iterable[PodId]) -> list[tuple[Pod, ...]]:
        """Group the pods that have to leave: those that restart together, and all others alone, in the given order."""
        groups: defaultdict[tuple[str, ...], list[Pod]] = defaultdict(list)
        all_or_none = {each.id for each in self.snapshot.gangs if each.disruption == DISRUPT_ALL}
        key_of: dict[PodId, tuple[str, ...]] = {}
        for pod in self.snapshot.pods:
            key = whole_group(pod)
            if key is None and pod.gang in all_or_none and pod.gang is not None:
                key = tuple(pod.gang)
            key_of[pod.id] = (*pod.id, "") if key is None else key
            groups[key_of[pod.id]].append(pod)
        keys = dict.fromkeys(key_of[pod] for pod in leaving if pod in key_of)
        return [tuple(groups[key]) for key in keys]

    def staying_reasons(self, pods: Sequence[Pod]) -> Iterator[tuple[Pod, str]]:
        """Return why a group of pods that leave together may not, for each of them that is in the way."""
        for pod in pods:
            if (why := self.why_not_evicted(pod)) != "":
                yield pod, why
        over = Counter(number for pod in pods for number in self.pdbs.over(pod))
        for number, count in over.items() if len(pods) > 1 else ():
            budget = self.snapshot.budgets[number]
            if 0 < budget.allowed < count:
                yield pods[0], f"PodDisruptionBudget {budget.name} allows {budget.allowed} of {count} disruptions now"


def _kept(pod: Pod) -> str:
    """Say which annotation keeps a pod."""
    if not pod.is_preemptible:
        return f'its annotation {PREEMPTIBLE} is "false"'
    if pod.repair_note is not None and pod.repair_note.kept_by:
        return f"its annotation {pod.repair_note.kept_by} forbids it"
    return ""


def whole_group(pod: Pod) -> tuple[str, ...] | None:
    """Return the key of the pods that restart when this one ends; None where it restarts alone."""
    says = "" if pod.repair_note is None else pod.repair_note.restarts
    if says == RESTARTS_ALONE:
        return None
    labels = dict(pod.labels)
    for label in _WHOLE_BY_LABEL:
        if label in labels:
            return (pod.id.namespace, label, labels[label])
    return tuple(pod.gang) if says == RESTARTS_WHOLE and pod.gang is not None else None
