"""The input of a decision: `Snapshot` (the cluster), `Batch` (the pods to place) and `Policy` (the objective)."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from solver.domain.claim import Claim, Constraint, Request
from solver.domain.device import DeviceClass, DeviceTaintRule, ResourceSlice
from solver.domain.gang import Gang
from solver.domain.holds import DeviceHold
from solver.domain.ids import CounterId, DeviceId, GangId, PodId
from solver.domain.label_selectors import NodeSelectorTerm
from solver.domain.node import Namespace, Node
from solver.domain.pod import Pod
from solver.domain.preemption import NodeReservation, NodeReservationLimits, PodDisruptionBudget, PreemptionRules
from solver.domain.quotas import DeviceQuota, WithdrawnDevice
from solver.domain.volumes import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """
    A frozen view of the cluster, every tuple sorted by its objects' keys.

    `pods` are the bound and assumed pods that are not terminal. `claims` are all claims of the cluster, with assumed
    allocations and reservations. `draws` is for allocated devices whose slice changed or is gone: the shared counters
    that they consumed when they were allocated, as (counter, nano-units) pairs.
    """

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    claims: tuple[Claim, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    node_drivers: tuple[CSINode, ...] = ()
    storage_capacities: tuple[CSIStorageCapacity, ...] = ()
    storage_drivers: tuple[CSIDriver, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    nominated: tuple[Pod, ...] = ()
    """Pods of any scheduler with status.nominatedNodeName and no node: their requests count there."""
    gangs: tuple[Gang, ...] = ()
    """The gangs of running pods; a gang that is not listed can only be evicted as a whole."""
    leaving: tuple[PodId, ...] = ()
    """Pods of `pods` whose eviction is requested and not observed yet."""
    draws: tuple[tuple[DeviceId, tuple[tuple[CounterId, int], ...]], ...] = ()
    holds: tuple[DeviceHold, ...] = ()
    """Room that is held for pods to come; places that a pod of `pods` has used up are marked as used."""
    quotas: tuple[DeviceQuota, ...] = ()
    withdrawn: tuple[WithdrawnDevice, ...] = ()
    """Devices that claims hold and no slice publishes any more; kept only where there are quotas."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods to decide together, in queue order (priority first, then how long they have waited).

    `gangs` are the gangs of the pods, each once; a gang that is not listed has no requirements. `overdue` are pods that
    were passed over for too long: they form a level above the others of their priority. `node_reservations` are the
    reservations for overdue pods, the longest waiting first, whether the pods are in the batch or not.
    `preemption_waits` has, by uid, the seconds since a decision first held back the evictions for a pod: 0 for one that
    got a nominated node without any eviction.
    """

    pods: tuple[Pod, ...]
    gangs: tuple[Gang, ...] = ()
    overdue: tuple[PodId, ...] = ()
    node_reservations: tuple[NodeReservation, ...] = msgspec.field(default=(), name="holds")  # the name in saved cases
    preemption_waits: tuple[tuple[str, int], ...] = ()

    def without(self, pods: Collection[PodId]) -> "Batch":
        """Return the batch without some pods."""
        if not pods:
            return self
        return msgspec.structs.replace(self, pods=tuple(pod for pod in self.pods if pod.id not in pods))

    def levelled(self) -> "Batch":
        """
        Cap the priorities of gang members, so that one member of high priority does not lift the others.

        A gang that needs `n` more pods has the n-th highest priority (spec.priority) of its waiting pods as its cap.
        Pods below the cap keep their priority.
        """
        members = self.members() if self.gangs else {}
        found = ((gang, _ceiling(gang, members.get(gang.id, ()))) for gang in self.gangs)
        ceilings = {gang.id: most for gang, most in found if most is not None}
        if not ceilings:
            return self
        pods = tuple(
            msgspec.structs.replace(pod, priority=ceilings[pod.gang])
            if pod.gang in ceilings and pod.priority > ceilings[pod.gang]
            else pod
            for pod in self.pods
        )
        return msgspec.structs.replace(self, pods=pods)

    def members(self) -> dict[GangId, list[Pod]]:
        """Return the pods of the batch that name a gang, by gang, in their order."""
        found: dict[GangId, list[Pod]] = {}
        for pod in self.pods:
            if pod.gang is not None:
                found.setdefault(pod.gang, []).append(pod)
        return found

    def gangs_of(self, pods: Collection[Pod]) -> tuple[Gang, ...]:
        """Return the gangs of some pods of the batch."""
        named = {pod.gang for pod in pods}
        return tuple(each for each in self.gangs if each.id in named)


def _ceiling(gang: Gang, waiting: Sequence[Pod]) -> int | None:
    """Return the priority cap of a gang's waiting pods; None if they have one priority, or no more are needed."""
    need = gang.min_count - gang.running_count
    if need <= 0:
        return None
    priorities = sorted((pod.priority for pod in waiting), reverse=True)
    return priorities[min(need, len(priorities)) - 1] if len(set(priorities)) > 1 else None


class OwnedDevices(msgspec.Struct, frozen=True, kw_only=True):
    """
    The devices that may be allocated (`devices.owned` of the configuration); existing allocations always count.

    Empty `drivers` means every driver; `node_terms` are ORed, empty means every node. For devices that are not local
    to a node only the driver matters.
    """

    drivers: tuple[str, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()

    @property
    def node_labels(self) -> str:
        """The labels that a node has to have, as kubectl takes them; "" where every node is meant."""
        parts = (part for term in self.node_terms for part in term.match_expressions)
        return ",".join(f"{part.key}={'|'.join(part.values)}" for part in parts)

    @property
    def wanted(self) -> str:
        """What the configuration wants of a device, in words; "" where every device is meant."""
        drivers = f"devices of {' or '.join(self.drivers)}" if self.drivers else ""
        return " on ".join(filter(None, (drivers, f"nodes with {self.node_labels}" if self.node_terms else "")))


EXPECTED_ROOM: Final = "expected-room"
"""The level of the room for pods that are expected; it counts where a policy expects some."""
PACK: Final = (
    "alternatives",
    "preferences",
    "suspects",
    "remote-devices",
    EXPECTED_ROOM,
    "opened-groups",
    "opened-nodes",
    "opened-devices",
    "spoiled-partitions",
    "device-value",
    "scores",
)
"""Bin packing: use few nodes and the smallest device that suffices; keep groups, nodes and large devices whole."""
SPREAD: Final = ("alternatives", "preferences", "suspects", "remote-devices", "crowded-nodes", "device-value", "scores")
"""Spreading: take devices of the nodes with the most free devices."""
TOPOLOGY: Final = (
    "alternatives",
    "preferences",
    "suspects",
    "remote-devices",
    "broken-groups",
    EXPECTED_ROOM,
    "opened-groups",
    "opened-nodes",
    "opened-devices",
    "spoiled-partitions",
    "device-value",
    "scores",
)
"""As `PACK`, and before that keep groups of devices of a node (one PCIe root, say) whole."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """
    Weights of the preferences, by default those of kube-scheduler's default profile; 0 turns one off.

    The first four are preferences of pods and nodes; the others score only pods without device claims.
    `free_of_devices` keeps such pods away from nodes with devices, above all whole ones, which kube-scheduler does not.
    """

    node_affinity: int = 2
    taint_toleration: int = 3
    pod_affinity: int = 2
    topology_spread: int = 2
    least_allocated: int = 1
    balanced_allocation: int = 1
    image_locality: int = 1
    free_of_devices: int = 10


class ExpectedPod(msgspec.Struct, frozen=True, kw_only=True):
    """
    Pods that are likely to come: `share` of a thousand pods, and what one of them asks for.

    `requests` are in the units of `Pod.requests`, `device_requests` and `constraints` those of all its claims together.
    """

    share: int
    requests: tuple[tuple[str, int], ...] = ()
    device_requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    How to choose among valid plans: the objective's levels by name, the most important first.

    The levels `placed` (one per priority) always come first and are not listed. Levels that do not apply to a batch
    are not in its report.
    """

    name: str = "pack"
    levels: tuple[str, ...] = PACK
    weights: Weights = Weights()
    group_labels: tuple[str, ...] = ("nvidia.com/gpu.clique",)
    """Node labels whose values form groups of nodes; a group without devices in use is kept free if possible."""
    group_attributes: tuple[str, ...] = ("resource.kubernetes.io/pcieRoot",)
    """Device attributes whose values form groups of devices of a node, for the level `broken-groups`."""
    owned: OwnedDevices = OwnedDevices()
    sums_priorities: bool = False
    """One level that sums the priorities of placed pods, instead of one level per priority; for comparisons."""
    counts_devices: bool = False
    """Whether as many devices as possible are given to pods that wait, and not devices to as many pods as possible."""
    preemption: PreemptionRules = PreemptionRules()
    node_reservations: NodeReservationLimits = msgspec.field(
        default=NodeReservationLimits(), name="holds"
    )  # the name in saved cases
    tells_inventory: bool = True
    """Whether reasons may name nodes, devices and their attributes."""
    allocates_where_plugins_serve: bool = False
    """Whether to allocate devices on nodes whose device plugin serves them as their class's extended resource too."""
    expected: tuple[ExpectedPod, ...] = ()
    """What is likely to come, for the level `expected-room`."""
    shapes_are_complete: bool = False
    """Whether the nodes show every shape of node that can be added."""
