"""Preemption: who may make room for whom, and what protects pods from it (policy/v1 PodDisruptionBudget)."""

from typing import Final

import msgspec

from solver.domain.ids import PodId
from solver.domain.labels import LabelSelector


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
