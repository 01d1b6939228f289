"""What a decision is made from: the cluster as it is believed to be, the pods to place, and how to choose."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from solver.domain.claim import Claim
from solver.domain.device import DeviceClass, DeviceTaintRule, ResourceSlice
from solver.domain.gang import Gang
from solver.domain.hold import Hold
from solver.domain.ids import CounterId, DeviceId, PodId
from solver.domain.namespace import Namespace
from solver.domain.node import Node
from solver.domain.pod import Pod
from solver.domain.preemption import DisruptionBudget, PreemptionRules
from solver.domain.selection import NodeSelectorTerm
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
    allocates_where_plugins_serve: bool = False
    """Whether devices are allocated on a node whose device plugin offers them as their class's extended resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    How long a solve may take.

    `seconds` is wall time, a safety net that is looked at everywhere but while a batch is prepared, placed by first fit
    and explained: that is always done, and takes about a second for 5000 nodes and 2000 pods whose cluster was seen
    before. `deterministic_seconds` is the solver's own measure of work, the same on every machine, and what tests and
    replays are bounded by. `may_leave` lets a plan leave pods for a solve of their own (`Plan.later`).
    `is_forgiving` has a search that contradicts itself left out and reported (`SearchReport.defect`); else it raises.
    """

    seconds: float = 2.0
    deterministic_seconds: float = 4.0
    seed: int = 0
    workers: int = 1
    may_leave: bool = False
    is_forgiving: bool = False
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)

    def remaining_seconds(self) -> float:
        """Wall seconds left, never below zero."""
        return max(0.0, self.started + self.seconds - self.clock())

    def has_half(self) -> bool:
        """Whether not more than half of the wall time is used up."""
        return self.remaining_seconds() >= self.seconds / 2

    def sparing(self) -> "Budget":
        """
        Keep something back of the wall time for what comes after the search: to write the plan down and explain it.

        That takes about a quarter of what preparing and the greedy took, on the machine and at the load of today.
        """
        left = self.remaining_seconds()
        return replace(self, seconds=self.seconds - min(left / 4, (self.seconds - left) / 4))

    def should_stop(self) -> bool:
        """Whether the wall time is used up."""
        return self.remaining_seconds() <= 0.0
