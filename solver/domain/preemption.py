"""Preemption: who may make room for whom, and what protects pods from it (policy/v1 PodDisruptionBudget).

Nodes that are kept for somebody who was passed over for too long.
"""

from typing import Final

import msgspec

from solver.domain.ids import PodId
from solver.domain.label_selectors import LabelSelector

PASSED_OVER: Final = "passed over for too long"
"""How the reason begins that a pod gets for which nodes are held; a restart knows it by that."""


class HoldBounds(msgspec.Struct, frozen=True, kw_only=True):
    """
    How many nodes may be held at once, in percent of all nodes, and for the pods of one namespace.

    Each is one node at least, unless it is 0. A gang may exceed them while nothing else is held, up to half of all.
    """

    percent: int = 10
    percent_of_namespace: int = 5

    def most(self, node_count: int) -> int:
        """Give the most nodes that are held in a cluster of so many."""
        return _share(node_count, self.percent)

    def most_of_namespace(self, node_count: int) -> int:
        """Give the most nodes that are held for one namespace."""
        return _share(node_count, min(self.percent, self.percent_of_namespace))

    def most_of_gang(self, node_count: int) -> int:
        """Give the most nodes that one gang holds by itself."""
        return max(self.most(node_count), (node_count + 1) // 2) if self.percent else 0


def _share(count: int, percent: int) -> int:
    return max(1, count * percent // 100) if percent else 0


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """
    Nodes that are kept for pods (one, or a gang's) until those can be placed there.

    Pods of a lower priority, or of the same one and not overdue for longer, take no devices of these nodes, and of
    everything else only what is left beside `requests`, which is what the pods ask of each of the nodes. `uids` are
    the pods' uids, the first of them that of `pod`.
    """

    pod: PodId
    uids: tuple[str, ...]
    priority: int
    nodes: tuple[str, ...]
    requests: tuple[tuple[str, int], ...] = ()
    takes_devices: bool = True


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PodDisruptionBudget: how many of the pods that it selects may be evicted now (`disruptionsAllowed`).

    `selector` is None where it selects nothing. `disrupted` names pods whose eviction was granted and is not seen yet:
    they are counted off already. `is_stale` says that the status is of an older spec: nothing is granted then.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    allowed: int = 0
    disrupted: tuple[str, ...] = ()
    is_stale: bool = False

    def selects(self, namespace: str, labels: dict[str, str]) -> bool:
        """Whether a pod of a namespace with these labels is protected by it."""
        return namespace == self.namespace and self.selector is not None and self.selector.matches(labels)


SYSTEM_PRIORITY: Final = 2_000_000_000
"""Where the priorities of the system begin (scheduling.SystemCriticalPriority); users' classes end at half of it."""


class Protection(msgspec.Struct, frozen=True, kw_only=True):
    """
    What keeps a pod from being evicted: its annotation, its PodDisruptionBudgets, its gang, and how short it has run.

    What is false here is best effort: pods that it covers go last, where no others help.
    """

    annotation: bool = True
    budgets: bool = True
    gangs: bool = True
    minimum_run: bool = True


UNPROTECTED: Final = Protection(annotation=False, budgets=False, gangs=False, minimum_run=False)


class PreemptionRules(msgspec.Struct, frozen=True, kw_only=True):
    """
    What may be evicted for the pods of a profile; nothing at all by default.

    `is_enabled` allows it for room on nodes (cpu, memory, ports and so on), `frees_devices` also counts on the devices
    of victims. Victims are pods of `scheduler_names`; those that hold devices have run for `minimum_run_seconds` at
    `now` (seconds since the epoch). At most `most_victims` are evicted by one plan; `ceiling` is what that can be at
    best, when no eviction was made for a while. `protection` binds preemptors of a priority below `binds_below`; for
    others it is best effort, as PodDisruptionBudgets are in kube-scheduler.
    """

    is_enabled: bool = False
    frees_devices: bool = False
    scheduler_names: tuple[str, ...] = ()
    minimum_run_seconds: int = 0
    now: int = 0
    most_victims: int = 1 << 20
    ceiling: int = 1 << 20
    protection: Protection = Protection()
    binds_below: int = SYSTEM_PRIORITY

    def binding(self, priority: int) -> Protection:
        """Say what protects pods from preemptors of a priority."""
        return self.protection if priority < self.binds_below else UNPROTECTED


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """
    A pod to be evicted, with the node that it leaves and a sentence fragment that says what for.

    `breaks_budgets` says that it is deleted where a PodDisruptionBudget refuses its eviction.
    """

    pod: PodId
    pod_uid: str
    node: str
    message: str
    breaks_budgets: bool = False
