"""What pods of one team may do to others and read about them: holds, protection from preemption, messages."""

from typing import Annotated

import msgspec
from msgspec import Meta

from solver.domain import SYSTEM_PRIORITY, HoldBounds, Protection

Percent = Annotated[int, Meta(ge=0, le=100)]
Priority = Annotated[int, Meta(ge=-2_147_483_648, le=2_147_483_647)]


class PodProtection(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """
    What keeps pods of a lower priority from being evicted for pods of this profile.

    What is off here is best effort, as PodDisruptionBudgets are in kube-scheduler: a pod that it covers goes last,
    where no others help.
    """

    annotation: bool = True
    """Whether the annotation `dovetail.dev/preemptible: "false"`, which any author of a pod may write, protects it."""

    budgets: bool = True
    """
    Whether PodDisruptionBudgets protect pods. Off, a pod whose eviction they refuse is deleted where no others help.
    """

    gangs: bool = True
    """Whether a gang goes whole or not at all, so that one member that may not go protects the others."""

    below_priority: Priority = SYSTEM_PRIORITY
    """
    Preemptors of this priority and above are bound by none of these, nor by `minimumRunSeconds`. The default is where
    the priorities of the system begin (`system-cluster-critical`): no tenant keeps a node from what the cluster needs.
    """

    def rules(self) -> Protection:
        """Give what protects pods from preemptors below that priority, in the solver's words."""
        return Protection(annotation=self.annotation, budgets=self.budgets, gangs=self.gangs)


class PreemptionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """
    Whether pods of lower priority are evicted for pods of this profile that have no place.

    Only pods of a profile of this file are, and none that `protection` covers: by the annotation
    `dovetail.dev/preemptible: "false"`, a PodDisruptionBudget, or its gang, which goes whole.
    """

    enabled: bool = True
    """Whether pods are evicted for room on nodes: cpu, memory, host ports and so on. Off, nobody is ever evicted."""

    devices: bool = False
    """
    Whether pods are also evicted for the devices that they hold. kube-scheduler never does so; work on devices is
    often long and dear, so it has to be asked for.
    """

    minimum_run_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 300
    """Seconds that a pod with devices has run before it may be evicted, for whatever."""

    protection: PodProtection = PodProtection()
    """What protects pods from being evicted, and from which preemptors."""

    max_evictions_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 60
    """
    The most pods that are evicted within any minute for pods of this profile. A pod or gang for which more would have
    to go waits in vain: the bound is never exceeded.
    """


class Holds(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How many nodes are held for pods that were passed over (`queue.maxPassedOverSeconds`)."""

    max_nodes_percent: Percent = 10
    """
    The most nodes that are held at once, in percent of all, and at least one. A gang that takes more holds them only
    while nothing else is held, and never more than half of the nodes where this is less. 0: none are held.
    """

    max_nodes_percent_of_namespace: Percent = 5
    """
    The most of them for the pods of one namespace, and at least one: however many of its pods are passed over, the
    others keep the rest.
    """

    def bounds(self) -> HoldBounds:
        """Give them in the solver's words."""
        return HoldBounds(percent=self.max_nodes_percent, percent_of_namespace=self.max_nodes_percent_of_namespace)


class Messages(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """
    What the authors of pods read in conditions and events, which name objects of their own namespace only.

    `dovetail explain` and `simulate` run with the caller's own rights, and say all of it.
    """

    inventory: bool = True
    """
    Whether messages name nodes and devices, and what these publish: labels, attributes, drivers and pools that would do
    instead of what a pod asks for. Off, they say how many do not do and why, in the pod's own words alone. The node
    that a pod is nominated or bound to is always in its own fields.
    """
