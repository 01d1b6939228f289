"""How a profile chooses among valid plans, and what its pods may do to others: weights, preemption, reservations."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from solver.domain import (
    PACK,
    SPREAD,
    SYSTEM_CRITICAL_PRIORITY,
    TOPOLOGY,
    NodeReservationLimits,
    PreemptionRules,
    Protection,
)
from solver.domain import Weights as SolverWeights

Weight = Annotated[int, Meta(ge=0, le=100)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Priority = Annotated[int, Meta(ge=-2_147_483_648, le=2_147_483_647)]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping of the file: camelCase keys, all optional; unknown keys are refused."""


class PolicyName(StrEnum):
    """How to choose among valid plans. Pods without devices are placed by scores under each policy."""

    PACK = "pack"
    """Fill few nodes and take the smallest device that fits, so that whole nodes and large devices stay free."""
    SPREAD = "spread"
    """Take devices on the nodes with most free devices, so that each node has few devices in use."""
    TOPOLOGY = "topology"
    """As `pack`, and keep groups of devices (of one PCIe root, for example) whole while other devices are left."""


class PlacedName(StrEnum):
    """What counts before all else, priority by priority."""

    PODS = "pods"
    """As many pods as possible get a place."""
    DEVICES = "devices"
    """Pods that get a place ask for as many devices as possible; of equally many, larger pods go first."""


LEVELS: Final = {PolicyName.PACK: PACK, PolicyName.SPREAD: SPREAD, PolicyName.TOPOLOGY: TOPOLOGY}


class WeightSettings(Section, frozen=True):
    """
    Weights of preferences and scores, with the defaults of kube-scheduler's default profile; 0 turns one off.

    Preferences that pods and nodes state come before the packing of devices. Scores come last, and only for pods
    without devices.
    """

    node_affinity: Weight = 2
    """Preference: preferred node affinity."""

    taint_toleration: Weight = 3
    """Preference: avoid taints with the effect PreferNoSchedule."""

    pod_affinity: Weight = 2
    """Preference: preferred pod affinity and anti-affinity."""

    topology_spread: Weight = 2
    """
    Preference: topology spread constraints with ScheduleAnyway. Score: for pods without devices and without
    constraints that belong to a ReplicaSet, StatefulSet or ReplicationController, an even spread over nodes and zones.
    """

    least_allocated: Weight = 1
    """Score: nodes with more free cpu and memory."""

    balanced_allocation: Weight = 1
    """Score: nodes whose shares of used cpu and used memory become more equal."""

    image_locality: Weight = 1
    """Score: nodes that already have the pod's images."""

    free_of_devices: Weight = 10
    """Score: nodes without devices, then (policy `pack` or `topology`) those in use. Not in kube-scheduler."""

    def solver_weights(self) -> SolverWeights:
        """Convert to the solver's type."""
        return SolverWeights(**{name: getattr(self, name) for name in self.__struct_fields__})


class PodProtection(Section, frozen=True):
    """
    What keeps pods of a lower priority from being evicted for pods of this profile.

    A protection that is off becomes best effort, as PodDisruptionBudgets are in kube-scheduler: a pod that it covers
    is evicted only where no other victims help.
    """

    annotation: bool = True
    """Whether the annotation `dovetail.dev/preemptible: "false"` protects a pod. Any author of a pod may set it."""

    budgets: bool = True
    """
    Whether PodDisruptionBudgets protect pods. If false, a pod whose eviction its budget refuses is deleted where no
    other victims help.
    """

    gangs: bool = True
    """Whether a gang is evicted as a whole or not at all, so that one protected member protects the others."""

    below_priority: Priority = SYSTEM_CRITICAL_PRIORITY
    """
    Preemptors of this priority and above ignore all protections and `minimumRunSeconds`. The default is the lowest
    priority of the system (`system-cluster-critical`).
    """

    def rules(self) -> Protection:
        """Return the protections for preemptors below that priority, as the solver's type."""
        return Protection(annotation=self.annotation, budgets=self.budgets, gangs=self.gangs)


class ReclaimSettings(Section, frozen=True):
    """
    Whether pods that borrow are evicted for pods of the same priority within the guarantee of their DeviceQuota.

    Pods of a lower priority go before them, pods of a higher one never. No quota is brought below its own guarantee.
    Needs `devices`.
    """

    enabled: bool = False
    """Whether devices that are lent are taken back by eviction. Without it a guarantee waits until pods end."""

    minimum_run_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 600
    """Seconds that a pod which borrows must have run before it may be evicted for that."""


class PreemptionSettings(Section, frozen=True):
    """
    Whether pods of lower priority are evicted for pods of this profile that fit nowhere.

    Only pods of a profile of this file are evicted, and no pod that `protection` covers: by the annotation
    `dovetail.dev/preemptible: "false"`, by a PodDisruptionBudget, or by its gang.
    """

    enabled: bool = True
    """Whether pods are evicted to free cpu, memory, host ports and the like. If false, no pod is ever evicted."""

    devices: bool = False
    """Whether pods are also evicted to free the devices that they use. kube-scheduler never does this."""

    minimum_run_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 300
    """Seconds that a pod with devices must have run before it may be evicted."""

    delay_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """
    Seconds in which no pod is evicted for a pod, from the first decision on that would have it evicted; for a gang from
    that of its last pod. Where an autoscaler adds nodes, give it the time that a node takes to come. The time begins
    anew when the scheduler restarts. Preemptors that ignore all protections (`protection.belowPriority`) do not wait.
    """

    protection: PodProtection = PodProtection()
    """What protects pods from eviction, and from which preemptors."""

    reclaim: ReclaimSettings = ReclaimSettings()
    """Whether devices that DeviceQuotas lend are taken back."""

    max_evictions_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 60
    """
    The most evictions within any minute for pods of this profile. A pod or gang that needs more victims than this keeps
    waiting.
    """

    def rules(self, scheduler_names: Collection[str]) -> PreemptionRules:
        """Return the solver's type; pods of these schedulers may be evicted."""
        return PreemptionRules(
            is_enabled=self.enabled,
            frees_devices=self.devices,
            scheduler_names=tuple(sorted(scheduler_names)),
            minimum_run_seconds=self.minimum_run_seconds,
            delay_seconds=self.delay_seconds,
            most_victims=self.max_evictions_per_minute,
            ceiling=self.max_evictions_per_minute,
            protection=self.protection.rules(),
            binds_below=self.protection.below_priority,
            reclaims=self.reclaim.enabled and self.devices,
            reclaim_minimum_run_seconds=self.reclaim.minimum_run_seconds,
        )


class AdmissionCheckSettings(Section, frozen=True):
    """Kueue's admission check `dovetail.dev/placement`, which lets a Workload in when all its pods have room."""

    enabled: bool = False
    """
    Whether Dovetail answers the check. It needs Kueue 0.19 or newer, and the rights of `deploy/components/kueue`.
    """

    park_after_seconds: Annotated[float, Meta(gt=0, le=86400)] = 60.0
    """How long a Workload without room keeps its quota. Then it is rejected, until it fits."""

    hold_seconds: Annotated[float, Meta(gt=0, le=86400)] = 600.0
    """How long room is held for pods of a Workload that was let in and that do not come."""


class NodeReservations(Section, frozen=True):
    """How many nodes are reserved for starving pods (`queue.starvationSeconds`)."""

    max_nodes_percent: Percent = 10
    """The most nodes that are reserved at once, in percent of all nodes; at least one node. 0 turns them off."""

    max_nodes_percent_per_namespace: Percent = 5
    """The most nodes that are reserved for the pods of one namespace, in percent of all nodes; at least one node."""

    max_nodes_percent_per_gang: Percent = 50
    """
    The most nodes that are reserved for one gang while nothing else is reserved, in percent of all nodes, rounded up.
    `maxNodesPercent` nodes may be reserved for it in any case.
    """

    def bounds(self) -> NodeReservationLimits:
        """Convert to the solver's type."""
        return NodeReservationLimits(
            percent=self.max_nodes_percent,
            percent_of_namespace=self.max_nodes_percent_per_namespace,
            percent_of_gang=self.max_nodes_percent_per_gang,
        )


class Messages(Section, frozen=True):
    """
    What conditions and events show to the authors of pods. They name objects of the pod's own namespace only.

    `dovetail explain` and `simulate` run with the caller's own rights and show everything.
    """

    inventory: bool = True
    """
    Whether messages name nodes and devices and what these publish: labels, attributes, drivers and pools that would
    match instead. If false, messages use only the pod's own words.
    """

    event_renewal_seconds: Annotated[float, Meta(gt=0, le=86400)] = 1800.0
    """
    How often the event of a pod that waits is written again, so that `kubectl describe pod` shows it; half of the API
    server's `--event-ttl`, which is one hour by default.
    """


class Autoscaling(Section, frozen=True):
    """What is known of the nodes that an autoscaler can add."""

    shapes_complete: bool = False
    """
    Whether the cluster always has a node of every shape that an autoscaler can add. A pod that would fit on none of the
    nodes if they were empty then has the reason `NoShapeHelps`, on which no autoscaler acts. Leave it false where node
    groups can be empty.
    """
