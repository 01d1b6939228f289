"""
Preemption and starvation: which pods may be victims, what protects them, and which nodes are reserved.

A pod that waits too long while later pods are placed is overdue; nodes are reserved for it (`NodeReservation`).
"""

from typing import Final

import msgspec

from solver.domain.ids import PodId
from solver.domain.label_selectors import LabelSelector

PASSED_OVER: Final = "passed over for too long"
"""Prefix of the message of a pod with a node reservation; a restarted scheduler recognises such a pod by it."""


class NodeReservationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """
    How many nodes may be reserved at once, in percent of all nodes, in total and for one namespace.

    Each limit is at least one node, unless it is 0. A gang may exceed them if it has the only reservation, up to
    `percent_of_gang` of all nodes.
    """

    percent: int = 10
    percent_of_namespace: int = 5
    percent_of_gang: int = 50

    def most(self, node_count: int) -> int:
        """Return the most nodes that are reserved in a cluster of `node_count` nodes."""
        return _share(node_count, self.percent)

    def most_of_namespace(self, node_count: int) -> int:
        """Return the most nodes that are reserved for one namespace."""
        return _share(node_count, min(self.percent, self.percent_of_namespace))

    def most_of_gang(self, node_count: int) -> int:
        """Return the most nodes that are reserved for one gang."""
        return max(self.most(node_count), -(-node_count * self.percent_of_gang // 100)) if self.percent else 0


def _share(count: int, percent: int) -> int:
    return max(1, count * percent // 100) if percent else 0


class NodeReservation(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes that are reserved for an overdue pod, or for the pods of a gang, until they are placed there.

    Later pods have a lower priority, or the same and are not overdue for longer. They take no devices of these nodes,
    and leave `requests` free on each of them. `uids` are the uids of the pods, first that of `pod`.
    """

    pod: PodId
    uids: tuple[str, ...]
    priority: int
    nodes: tuple[str, ...]
    requests: tuple[tuple[str, int], ...] = ()
    takes_devices: bool = True


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """
    PodDisruptionBudget (policy/v1); `allowed` is status.disruptionsAllowed.

    `selector` is None if it selects nothing. `is_stale` says that the status belongs to an older generation: the API
    server refuses evictions then.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    allowed: int = 0
    is_stale: bool = False

    def selects(self, namespace: str, labels: dict[str, str]) -> bool:
        """Whether the budget protects a pod with these labels."""
        return namespace == self.namespace and self.selector is not None and self.selector.matches(labels)


SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""scheduling.SystemCriticalPriority; users' priority classes have at most half of it."""


class Protection(msgspec.Struct, frozen=True, kw_only=True):
    """
    What protects a pod from eviction: its annotation, its PodDisruptionBudgets, its gang, and a minimum run time.

    A protection that is false here is best effort: the pods that it covers are victims only if no others suffice.
    """

    annotation: bool = True
    budgets: bool = True
    gangs: bool = True
    minimum_run: bool = True


UNPROTECTED: Final = Protection(annotation=False, budgets=False, gangs=False, minimum_run=False)


class PreemptionRules(msgspec.Struct, frozen=True, kw_only=True):
    """
    Which pods may be evicted for the pods of a profile; none by default.

    `is_enabled` allows preemption for node resources (cpu, memory, ports and so on), `frees_devices` also for devices.
    Victims are pods of `scheduler_names`. Victims with devices must have run for `minimum_run_seconds` at `now`
    (seconds since the epoch), and preemptors must have waited for `delay_seconds` (`Batch.preemption_waits`). A plan
    evicts at most `most_victims` pods; `ceiling` is the largest value of that limit, reached after a while without
    evictions. `protection` binds preemptors with a priority below `binds_below`; for others it is best effort, as
    PodDisruptionBudgets are in kube-scheduler.
    """

    is_enabled: bool = False
    frees_devices: bool = False
    scheduler_names: tuple[str, ...] = ()
    minimum_run_seconds: int = 0
    delay_seconds: int = 0
    now: int = 0
    most_victims: int = 1 << 20
    ceiling: int = 1 << 20
    protection: Protection = Protection()
    binds_below: int = SYSTEM_CRITICAL_PRIORITY
    reclaims: bool = False
    """Whether pods of the same priority that borrow are victims too, for a pod within the guarantee of its quota."""
    reclaim_minimum_run_seconds: int = 0

    def binding(self, priority: int) -> Protection:
        """Return the protection of pods from preemptors of a priority."""
        return self.protection if priority < self.binds_below else UNPROTECTED


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod to evict, its node, and a sentence fragment that says for which pod.

    `breaks_budgets` says that the pod is deleted if a PodDisruptionBudget refuses its eviction.
    """

    pod: PodId
    pod_uid: str
    node: str
    message: str
    breaks_budgets: bool = False
