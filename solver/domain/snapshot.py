"""What a decision is made from: the cluster as it is believed to be, the pods to place, and how to choose."""

from collections.abc import Collection
from typing import Final

import msgspec

from solver.domain.claim import Claim
from solver.domain.device import DeviceClass, DeviceTaintRule, ResourceSlice
from solver.domain.gang import Gang
from solver.domain.ids import CounterId, DeviceId, PodId
from solver.domain.label_selectors import NodeSelectorTerm
from solver.domain.node import Namespace, Node
from solver.domain.pod import Pod
from solver.domain.preemption import DisruptionBudget, Hold, HoldBounds, PreemptionRules
from solver.domain.volumes import (
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumeAttachment,
    VolumeClaim,
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """
    A frozen picture of the cluster, every tuple sorted by its objects' keys.

    `pods` are those that hold a node: bound or assumed, and not terminal. `claims` are all claims of the cluster;
    allocations and reservations that are assumed but not yet confirmed are already in them. `draws` says, for
    allocated devices whose slice no longer tells (it changed or is gone), what they took of shared counters when
    they were allocated: (counter, nano-units) pairs.
    """

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    claims: tuple[Claim, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    volumes: tuple[Volume, ...] = ()
    volume_claims: tuple[VolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    node_drivers: tuple[NodeDrivers, ...] = ()
    storage_capacities: tuple[StorageCapacity, ...] = ()
    storage_drivers: tuple[StorageDriver, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    nominated: tuple[Pod, ...] = ()
    """Pods without a node that have one nominated, of any scheduler: room is held for them there."""
    gangs: tuple[Gang, ...] = ()
    """The gangs of running pods; one that is not among them counts as one that only goes whole."""
    leaving: tuple[PodId, ...] = ()
    """Pods among `pods` that are about to be evicted and do not show it yet."""
    draws: tuple[tuple[DeviceId, tuple[tuple[CounterId, int], ...]], ...] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods to decide together, in queue order (priority first, then how long they have waited).

    `gangs` are those that the pods name, each once; a gang that is not among them demands nothing. `overdue` are pods
    that were passed over for too long: a level above the others of their priority. `holds` are the nodes that are kept
    for such pods, the one that has waited longest first, whether they are in the batch or not.
    """

    pods: tuple[Pod, ...]
    gangs: tuple[Gang, ...] = ()
    overdue: tuple[PodId, ...] = ()
    holds: tuple[Hold, ...] = ()

    def without(self, pods: Collection[PodId]) -> "Batch":
        """Give the batch of all its pods but some."""
        if not pods:
            return self
        return msgspec.structs.replace(self, pods=tuple(pod for pod in self.pods if pod.id not in pods))

    def levelled(self) -> "Batch":
        """
        Give the batch with no pod of a gang above the pods that have to run with it.

        A gang that needs `n` more pods goes by the n-th highest priority (spec.priority) of those that wait: one pod of
        a high priority takes no room for others of a low one. Pods below that keep their own, and nothing is raised.
        """
        ceilings = {gang.id: most for gang in self.gangs if (most := self._ceiling(gang)) is not None}
        if not ceilings:
            return self
        pods = tuple(
            msgspec.structs.replace(pod, priority=ceilings[pod.gang])
            if pod.gang in ceilings and pod.priority > ceilings[pod.gang]
            else pod
            for pod in self.pods
        )
        return msgspec.structs.replace(self, pods=pods)

    def _ceiling(self, gang: Gang) -> int | None:
        """Give the highest priority that a gang's pods may go by; None where all have one anyway, or none is needed."""
        need = gang.min_count - gang.running_count
        if need <= 0:
            return None
        priorities = sorted((pod.priority for pod in self.pods if pod.gang == gang.id), reverse=True)
        return priorities[min(need, len(priorities)) - 1] if len(set(priorities)) > 1 else None

    def gangs_of(self, pods: Collection[Pod]) -> tuple[Gang, ...]:
        """Give the gangs of the batch that some pods belong to."""
        named = {pod.gang for pod in pods}
        return tuple(each for each in self.gangs if each.id in named)


class OwnedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """
    What may be allocated (`devices.owned` of the configuration); claims that are allocated already always count.

    Empty `drivers` means every driver; `node_terms` are ORed, empty means every node. Devices that are not
    local to a node are owned by their driver alone.
    """

    drivers: tuple[str, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()


PACK: Final = (
    "alternatives",
    "preferences",
    "suspects",
    "opened-groups",
    "opened-nodes",
    "opened-devices",
    "spoiled-partitions",
    "device-value",
    "scores",
)
"""Fill few nodes and take the smallest device that does: whole groups of nodes, whole nodes and large devices stay."""
SPREAD: Final = ("alternatives", "preferences", "suspects", "crowded-nodes", "device-value", "scores")
"""Take devices where most are free, and few of each node."""
TOPOLOGY: Final = (
    "alternatives",
    "preferences",
    "suspects",
    "broken-groups",
    "opened-groups",
    "opened-nodes",
    "opened-devices",
    "spoiled-partitions",
    "device-value",
    "scores",
)
"""As `PACK`, and before everything else break no group of devices within a node that is whole."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """
    How much each preference counts beside the others, by default as much as in kube-scheduler's default profile; 0 not.

    The first four are preferences that pods or nodes state; the others are scores, of pods that take no device.
    `free_of_devices` keeps pods without devices away from nodes that have some, which kube-scheduler does not do.
    """

    node_affinity: int = 2
    taint_toleration: int = 3
    pod_affinity: int = 2
    topology_spread: int = 2
    least_allocated: int = 1
    balanced_allocation: int = 1
    image_locality: int = 1
    free_of_devices: int = 10


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    How to choose among valid plans: the names of the objective's levels, first the most important.

    The levels `placed` (strict by priority) always come first and are not listed. Levels about which a batch has
    nothing to say are left out of its report.
    """

    name: str = "pack"
    levels: tuple[str, ...] = PACK
    weights: Weights = Weights()
    group_labels: tuple[str, ...] = ("nvidia.com/gpu.clique",)
    """Node labels whose values group nodes that are worth more as long as none of their devices is in use."""
    group_attributes: tuple[str, ...] = ("resource.kubernetes.io/pcieRoot",)
    """Device attributes that group devices of a node in the same way, looked at where a level counts broken groups."""
    owned: OwnedDevices = OwnedDevices()
    sums_priorities: bool = False
    """One level for all pods, worth their priorities, instead of one level per priority; for comparisons."""
    preemption: PreemptionRules = PreemptionRules()
    holds: HoldBounds = HoldBounds()
    tells_inventory: bool = True
    """Whether reasons may name nodes, devices and what these publish."""
    allocates_where_plugins_serve: bool = False
    """Whether devices are allocated on a node whose device plugin offers them as their class's extended resource."""
