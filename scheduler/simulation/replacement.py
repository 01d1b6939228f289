"""
Manifests over a live cluster: an object of a manifest takes the place of the cluster's, and what that held is free.

A pod, or the pods of a workload, would be made anew: the running ones leave, with the claims that were made for them
and with their part in other claims. A claim keeps its allocation while another pod uses it, as `kubectl apply` never
changes a status.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.change import Change, Kind, split_key
from solver.domain import Claim, ClaimId, Pod, PodGroup

_TEMPLATE_HASH: Final = "pod-template-hash"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_RAY_CLUSTER: Final = "ray.io/cluster"
_RANDOM: Final = re.compile("[bcdfghjklmnpqrstvwxz2456789]{5}")
"""The ending of a generated name."""

WorkloadKey = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


def replaced(live: Sequence[Change], keys: Collection[str], workloads: Collection[WorkloadKey]) -> tuple[Pod, ...]:
    """Return the live pods that manifests replace: by key (`namespace/name`), or as pods of a workload."""
    if not keys and not workloads:
        return ()
    pods = (change.value for change in live if isinstance(change.value, Pod) and not change.value.is_terminal)
    return tuple(pod for pod in pods if str(pod.id) in keys or any(each in workloads for each in _workloads(pod)))


def _workloads(pod: Pod) -> Iterator[WorkloadKey]:
    """Name the workloads that may have made a pod, by its controller's kind, its labels and its name."""
    if pod.controller is None:
        return
    kind, labels, parent = pod.controller.kind, dict(pod.labels), pod.id.name.rpartition("-")[0]
    yield kind, pod.id.namespace, labels.get(_JOB_NAME, "") if kind == "Job" else parent
    if kind == "RayCluster":
        yield from _of_ray(pod.id.namespace, labels.get(_RAY_CLUSTER, ""))
    ending = f"-{labels.get(_TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and parent.endswith(ending):
        yield "Deployment", pod.id.namespace, parent.removesuffix(ending)


def _of_ray(namespace: str, cluster: str) -> Iterator[WorkloadKey]:
    """Name a RayCluster, and the RayJob or RayService whose name a random ending has completed."""
    yield "RayCluster", namespace, cluster
    base, _, ending = cluster.rpartition("-")
    if _RANDOM.fullmatch(ending):
        yield "RayJob", namespace, base
        yield "RayService", namespace, base


def without_pods(live: Sequence[Change], gone: Sequence[Pod], groups: Collection[str]) -> tuple[Change, ...]:
    """
    Remove pods, the claims that were made for them, and what they hold of other claims.

    `groups` are the keys of PodGroups in manifests: one whose last pod leaves gives its claims back too.
    """
    if not gone and not groups:
        return tuple(live)
    uids = {pod.uid for pod in gone}
    staying_pods = {
        (pod.id.namespace, pod.pod_group)
        for change in live
        if isinstance(pod := change.value, Pod) and pod.uid not in uids and not pod.is_terminal
    }
    for change in live:
        value = change.value
        if isinstance(value, PodGroup) and change.key in groups and tuple(split_key(change.key)) not in staying_pods:
            uids.add(value.uid)
    left = (_left(change, uids) for change in live)
    return tuple(change for change in left if change is not None)


def removed(live: Sequence[Change], left: Sequence[Change]) -> tuple[Pod | Claim, ...]:
    """Return the pods and claims of a cluster that are no longer among what is left of it."""
    kept = keys(left)
    found = (change.value for change in live if (change.kind, change.key) not in kept)
    return tuple(each for each in found if isinstance(each, Pod | Claim))


def _left(change: Change, gone: Collection[str]) -> Change | None:
    """Return what is left of an object once pods and groups with these uids are gone."""
    value = change.value
    if isinstance(value, Pod):
        return None if value.uid in gone else change
    if not isinstance(value, Claim):
        return change
    if value.owner_pod_uid in gone:
        return None
    users = tuple(each for each in value.reserved_for if each.uid not in gone)
    if len(users) == len(value.reserved_for):
        return change
    if users:
        return msgspec.structs.replace(change, value=msgspec.structs.replace(value, reserved_for=users))
    freed = msgspec.structs.replace(value, allocation=None, reserved_for=(), device_status=())
    return msgspec.structs.replace(change, value=freed)


def with_status(claim: Claim, there: Claim | None) -> Claim:
    """Give a claim of a manifest without a status that of the cluster's claim."""
    if there is None or claim.allocation is not None:
        return claim
    return msgspec.structs.replace(
        claim, allocation=there.allocation, reserved_for=there.reserved_for, device_status=there.device_status
    )


def claims_by_id(live: Sequence[Change]) -> dict[ClaimId, Claim]:
    """Index the claims of a cluster."""
    return {change.value.id: change.value for change in live if isinstance(change.value, Claim)}


def latest(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Keep the last change of every object."""
    return tuple({(each.kind, each.key): each for each in changes}.values())


def keys(changes: Iterable[Change]) -> set[tuple[Kind, str]]:
    """Return what identifies the objects of changes."""
    return {(each.kind, each.key) for each in changes}
