"""Which manifests are read, and what is wrong with the versions of others."""

from collections.abc import Mapping
from typing import Final

from scheduler.change import Kind
from scheduler.simulation.manifests.fields import Body, text

_RESOURCE: Final = "resource.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_CURRENT: Final = frozenset({"v1", "v1beta2"})
"""Versions of resource.k8s.io that have today's shape."""

KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    ("", "Node"): Kind.NODES,
    ("", "Pod"): Kind.PODS,
    ("", "Namespace"): Kind.NAMESPACES,
    (_RESOURCE, "ResourceSlice"): Kind.SLICES,
    (_RESOURCE, "DeviceClass"): Kind.CLASSES,
    (_RESOURCE, "ResourceClaim"): Kind.CLAIMS,
    (_RESOURCE, "DeviceTaintRule"): Kind.TAINT_RULES,
    ("", "PersistentVolume"): Kind.VOLUMES,
    ("", "PersistentVolumeClaim"): Kind.VOLUME_CLAIMS,
    (_STORAGE, "StorageClass"): Kind.STORAGE_CLASSES,
    (_STORAGE, "CSINode"): Kind.NODE_DRIVERS,
    (_STORAGE, "CSIStorageCapacity"): Kind.STORAGE_CAPACITIES,
    (_STORAGE, "CSIDriver"): Kind.STORAGE_DRIVERS,
    (_STORAGE, "VolumeAttachment"): Kind.ATTACHMENTS,
    ("policy", "PodDisruptionBudget"): Kind.BUDGETS,
    ("scheduling.k8s.io", "PodGroup"): Kind.POD_GROUPS,
    ("scheduling.x-k8s.io", "PodGroup"): Kind.COSCHEDULING_GROUPS,
}
WORKLOADS: Final = frozenset(
    {("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("batch", "Job")}
)
UNSTAMPED: Final = frozenset({("apps", "DaemonSet"), ("batch", "CronJob"), ("", "ReplicationController")})
"""What makes pods and is not read: which ones depends on nodes or on time."""
TEMPLATE: Final = (_RESOURCE, "ResourceClaimTemplate")
PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")

_OURS: Final = {kind: group for group, kind in (*KINDS, *WORKLOADS, TEMPLATE)}


def of(body: Body) -> tuple[str, str]:
    """Give an object's API group and kind."""
    group, _, version = text(body.get("apiVersion")).rpartition("/")
    del version
    return group, text(body.get("kind"))


def wrong_version(body: Body) -> str:
    """Say what is wrong with an object's apiVersion; empty where nothing is, or where the kind is nobody we know."""
    api_version, (group, kind) = text(body.get("apiVersion")), of(body)
    expected = group if (group, kind) in KINDS else _OURS.get(kind)
    if expected is None:
        return ""
    version = api_version.rpartition("/")[2]
    newest = f"{expected}/v1" if expected else "v1"
    if group != expected:
        return f"{api_version} has no {kind}: write {newest}" if _is_near(group, expected) else ""
    if group != _RESOURCE or version in _CURRENT or (kind == "DeviceTaintRule" and version == "v1alpha3"):
        return ""
    return (
        f"{api_version} is an older version with another shape: write {newest}, where a request holds `exactly` "
        "and a device its attributes and capacity without `basic`"
    )


def _is_near(group: str, expected: str) -> bool:
    """Whether a group is meant to be one of Kubernetes' own; others may well have kinds of the same name."""
    return "." not in group or group.endswith(".k8s.io") or bool(expected and group.endswith(expected))
