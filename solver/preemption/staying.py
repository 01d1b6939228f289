"""Who may be moved by a defragmentation, and what keeps the others where they are."""

from dataclasses import dataclass, field

from solver.domain import PREEMPTIBLE, Pod, Policy, Snapshot
from solver.preemption.shields import Shields


@dataclass(slots=True, eq=False)
class Stays:
    """Says why pods of a cluster may not be moved for others of a priority."""

    snapshot: Snapshot
    policy: Policy
    priority: int
    shields: Shields = field(init=False)
    _special: frozenset[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.shields = Shields(self.snapshot)
        self._special = frozenset(
            (claim.id.namespace, claim.owner_pod_uid) for claim in self.snapshot.claims if claim.is_special
        )

    def why(self, pod: Pod) -> str:
        """Give a sentence fragment about a pod that may not be moved; empty for one that may."""
        if pod.scheduler_name not in self.policy.preemption.scheduler_names:
            return f"another scheduler placed it: {pod.scheduler_name or 'none is named'}"
        if pod.controller is None:
            return "it has no controller that would make it anew"
        if not pod.is_preemptible:
            return f'its annotation {PREEMPTIBLE} is "false"'
        if pod.is_deleting:
            return "it is being deleted already"
        if pod.gang is not None:
            return f"it belongs to gang {pod.gang.namespace}/{pod.gang.name}"
        if pod.priority > self.priority:
            return f"its priority {pod.priority} is above {self.priority}"
        if (pod.id.namespace, pod.uid) in self._special:
            return "its devices are those of an extended resource"
        return self._shielded(pod)

    def _shielded(self, pod: Pod) -> str:
        over = [self.snapshot.budgets[each] for each in dict.fromkeys(self.shields.over(pod))]
        names = ", ".join(each.name for each in over)
        if over and self.shields.are_too_long(pod.id.namespace):
            return "the PodDisruptionBudgets of its namespace have more requirements than are looked at"
        if len(over) > 1:
            return f"several PodDisruptionBudgets select it, and the eviction is refused then: {names}"
        if any(each.is_stale for each in over):
            return f"PodDisruptionBudget {names} has changed and its status has not followed yet"
        if any(each.allowed <= 0 for each in over):
            return f"PodDisruptionBudget {names} allows no disruption now"
        return ""
