"""The kinds that are made, where they are in the API, and the names that hostile objects use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from e2e.controlplane import versions
from e2e.hostile.objects.draw import Draw
from scheduler.change import Kind

Manifest = dict[str, Any]
Change = Callable[[Draw, Manifest], None]

NAMESPACE: Final = "mallory"
"""Where hostile objects are."""
DRIVER: Final = "mallory.example.com"
HELD_NODE: Final = "gpu-0002"
"""A node of the fleet whose devices, room and pool hostile objects may take."""
OWN_NODES: Final = ("mallory-node-0", "mallory-node-1")
GPU_DRIVER: Final = "gpu.nvidia.com"
GPU_CLASS: Final = "gpu.nvidia.com"
PRIORITIES: Final = {"mallory-low": -(2**31) + 1000, "mallory-high": 900}
"""PriorityClasses of the hostile namespace, by name."""
MOST_PRIORITY: Final = 900
SCHEDULER: Final = "dovetail"
BARE_WRITER: Final = "writer"
"""The schedulerName of the good pods that are bound without a decision."""

API_VERSIONS: Final[dict[Kind, tuple[str, str]]] = {
    Kind.NODES: ("v1", "Node"),
    Kind.PODS: ("v1", "Pod"),
    Kind.NAMESPACES: ("v1", "Namespace"),
    Kind.SLICES: ("resource.k8s.io/v1", "ResourceSlice"),
    Kind.CLASSES: ("resource.k8s.io/v1", "DeviceClass"),
    Kind.CLAIMS: ("resource.k8s.io/v1", "ResourceClaim"),
    Kind.TAINT_RULES: (versions.taint_rules(), "DeviceTaintRule"),
    Kind.VOLUMES: ("v1", "PersistentVolume"),
    Kind.VOLUME_CLAIMS: ("v1", "PersistentVolumeClaim"),
    Kind.STORAGE_CLASSES: ("storage.k8s.io/v1", "StorageClass"),
    Kind.NODE_DRIVERS: ("storage.k8s.io/v1", "CSINode"),
    Kind.STORAGE_CAPACITIES: ("storage.k8s.io/v1", "CSIStorageCapacity"),
    Kind.STORAGE_DRIVERS: ("storage.k8s.io/v1", "CSIDriver"),
    Kind.ATTACHMENTS: ("storage.k8s.io/v1", "VolumeAttachment"),
    Kind.BUDGETS: ("policy/v1", "PodDisruptionBudget"),
    Kind.POD_GROUPS: (versions.pod_groups(), "PodGroup"),
    Kind.COSCHEDULING_GROUPS: ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    Kind.HOLDS: ("dovetail.dev/v1alpha1", "DeviceHold"),
    Kind.QUOTAS: ("dovetail.dev/v1alpha1", "DeviceQuota"),
}
NAMESPACED: Final = frozenset(
    {
        Kind.PODS,
        Kind.CLAIMS,
        Kind.VOLUME_CLAIMS,
        Kind.STORAGE_CAPACITIES,
        Kind.BUDGETS,
        Kind.POD_GROUPS,
        Kind.COSCHEDULING_GROUPS,
    }
)


@dataclass(frozen=True, slots=True)
class Twist:
    """One way to make an object hostile."""

    about: str
    change: Change
    is_admitted: bool


class Table:
    """The twists of one kind, and the valid object that they start from."""

    def __init__(self, kind: Kind, base: Callable[[Draw], Manifest]) -> None:
        self.kind = kind
        self.twists: list[Twist] = []
        self._base = base

    def twist(self, about: str, *, is_admitted: bool = True) -> Callable[[Change], Change]:
        """Add the decorated function."""

        def add(change: Change) -> Change:
            self.twists.append(Twist(about, change, is_admitted))
            return change

        return add

    def base(self, draw: Draw) -> Manifest:
        """Make the valid object."""
        made = self._base(draw)
        version, kind = API_VERSIONS[self.kind]
        return {"apiVersion": version, "kind": kind, **made}


def metadata(draw: Draw, kind: Kind, **fields: Any) -> Manifest:
    """Make metadata with the name that belongs to the number; one in twenty is as long as allowed."""
    stem = f"mallory-{draw.number}"
    name = f"{stem}-{'x' * (50 - len(stem))}" if draw.chance(0.05) else stem
    return {"name": name, **({"namespace": NAMESPACE} if kind in NAMESPACED else {}), **fields}


def node_name(draw: Draw) -> str:
    """Give the name of a node that hostile objects may use, or of none."""
    return draw.one((HELD_NODE, *OWN_NODES, "no-such-node"))
