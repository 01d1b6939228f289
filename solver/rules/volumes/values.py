"""
Rules of volumes, object by object (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits).

They follow kube-scheduler 1.36 and the volume controller, which must agree on the volumes that fit a claim.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from solver.domain import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    Reason,
    ReasonCode,
    StorageClass,
    VolumeClaimId,
    node_reason,
)
from solver.rules.node_fit import values as node_fit

_ZONES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Zone and region labels of volumes, and the node label that is compared with each."""
_IN_TREE_DRIVERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
}

ELSEWHERE: Final = node_reason(ReasonCode.VOLUME_ELSEWHERE, "node(s) didn't match PersistentVolume's node affinity")
OTHER_ZONE: Final = node_reason(ReasonCode.VOLUME_ELSEWHERE, "node(s) had no available volume zone")
MISSING: Final = node_reason(
    ReasonCode.VOLUME_MISSING, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
NONE_TO_BIND: Final = node_reason(ReasonCode.VOLUME_NONE, "node(s) didn't find available persistent volumes to bind")
TOO_LITTLE: Final = node_reason(ReasonCode.VOLUME_CAPACITY, "node(s) did not have enough free storage")
DISK_IN_USE: Final = node_reason(ReasonCode.VOLUME_IN_USE, "node(s) had no available disk")
EXCLUSIVE_IN_USE: Final = node_reason(
    ReasonCode.VOLUME_EXCLUSIVE,
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
TOO_MANY: Final = node_reason(ReasonCode.VOLUME_ATTACHMENTS, "node(s) exceed max volume count")
"""kube-scheduler's messages."""


def driver_missing(driver: str) -> Reason:
    """Return the reason that a required CSI driver is not on a node (CSIDriver.spec.preventPodSchedulingIfMissing)."""
    return node_reason(ReasonCode.VOLUME_DRIVER_MISSING, f"{driver} CSI driver is not installed on the node")


def _of_claim(code: ReasonCode, message: str) -> Reason:
    """Return a reason in the words of kube-scheduler's PreFilter."""
    return Reason(code=code, message=message, status=message)


def objections(
    pod: Pod, claims: Mapping[VolumeClaimId, PersistentVolumeClaim], classes: Mapping[str, StorageClass]
) -> tuple[Reason, ...]:
    """Return the reasons of volume claims that exclude every node; empty if there are none."""
    found = (each for volume in pod.volumes if volume.claim is not None for each in _objections(pod, volume, claims))
    return tuple(found) or tuple(_unbound(pod, claims, classes))


def _objections(pod: Pod, volume: PodVolume, claims: Mapping[VolumeClaimId, PersistentVolumeClaim]) -> Iterator[Reason]:
    if volume.claim is None:
        return
    name, claim = volume.claim.name, claims.get(volume.claim)
    if claim is None and volume.is_ephemeral:
        message = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        yield _of_claim(ReasonCode.VOLUME_CLAIM_MISSING, message)
    elif claim is None:
        yield _of_claim(ReasonCode.VOLUME_CLAIM_MISSING, f'persistentvolumeclaim "{name}" not found')
    elif claim.invalid:
        message = f'persistentvolumeclaim "{name}" cannot be read (the pod waits for a valid one): {claim.invalid}'
        yield Reason(code=ReasonCode.VOLUME_CLAIM_UNUSABLE, message=message)
    elif claim.is_lost:
        message = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
        yield _of_claim(ReasonCode.VOLUME_CLAIM_UNUSABLE, message)
    elif claim.is_deleting:
        message = f'persistentvolumeclaim "{name}" is being deleted'
        yield _of_claim(ReasonCode.VOLUME_CLAIM_UNUSABLE, message)
    elif volume.is_ephemeral and claim.owner_pod_uid != pod.uid:
        message = f"PVC {claim.id} was not created for pod {pod.id} (pod is not owner)"
        yield _of_claim(ReasonCode.VOLUME_CLAIM_UNUSABLE, message)


def _unbound(
    pod: Pod, claims: Mapping[VolumeClaimId, PersistentVolumeClaim], classes: Mapping[str, StorageClass]
) -> Iterator[Reason]:
    """Return the reason for unbound claims with immediate binding; claims of a missing class are among them."""
    names = []
    for each in pod.volume_claims:
        claim = claims[each]
        if not claim.is_bound and not waits(claim, classes):
            is_unknown = bool(claim.storage_class) and claim.storage_class not in classes and not claim.volume
            names.append(each.name + (f" of StorageClass {claim.storage_class}, which is not there" * is_unknown))
    if names:
        status = "pod has unbound immediate PersistentVolumeClaims"
        message = f"{status} ({', '.join(names)})"
        yield Reason(code=ReasonCode.VOLUME_CLAIM_UNBOUND, message=message, status=status)


def waits(claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]) -> bool:
    """Whether a claim waits for its first consumer (WaitForFirstConsumer)."""
    found = classes.get(claim.storage_class)
    return not claim.is_bound and not claim.volume and found is not None and found.waits_for_consumer


def volume_fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume can be bound to a claim, apart from nodes; a pre-bound volume has fewer conditions."""
    if volume.claim is not None and not volume.is_bound_to(claim):
        return False
    is_like = (volume.mode, volume.attributes_class) == (claim.mode, claim.attributes_class)
    if volume.is_deleting or not is_like or volume.capacity < (claim.request or 0):
        return False
    if volume.claim is not None:
        return True
    if volume.phase != "Available" or volume.storage_class != claim.storage_class:
        return False
    if claim.selector is not None and not claim.selector.matches(dict(volume.labels)):
        return False
    return set(claim.access_modes) <= set(volume.access_modes)


def zones(volume: PersistentVolume) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the zones and regions in a volume's labels: (label, values)."""
    return tuple((key, tuple(sorted(set(value.split("__"))))) for key, value in volume.labels if key in _ZONES)


def is_in_zones(wanted: tuple[tuple[str, tuple[str, ...]], ...], labels: Mapping[str, str]) -> bool:
    """Whether a node is in a volume's zones; a node without zone labels is in all."""
    if not any(key in labels for key in _ZONES):
        return True
    return all(labels.get(key, labels.get(_ZONES[key])) in values for key, values in wanted)


def allows(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """Whether a term of a volume's node affinity holds; only labels count (volumehelpers.CheckNodeAffinity)."""
    return node_fit.matches_term(term, "", labels)


def driver_of(provisioner: str) -> str:
    """Return the CSI driver of a provisioner: that of a migrated in-tree plugin, or the provisioner itself."""
    return _IN_TREE_DRIVERS.get(provisioner, provisioner)


def attached_as(
    claim: PersistentVolumeClaim, volume: PersistentVolume | None, classes: Mapping[str, StorageClass]
) -> tuple[str, str, str] | None:
    """
    Return how a claim's volume counts for attach limits: driver, unique name, and in-tree plugin or empty.

    A volume to be provisioned counts for its provisioner's driver. A volume of a plugin counts only on nodes that have
    migrated the plugin. None if it never counts.
    """
    if claim.volume and volume is not None:
        return (volume.driver, f"{volume.driver}/{volume.handle}", volume.migrated_from) if volume.handle else None
    found = classes.get(claim.storage_class)
    if found is None or not found.provisioner:
        return None
    driver = driver_of(found.provisioner)
    plugin = found.provisioner if found.provisioner in _IN_TREE_DRIVERS else ""
    return driver, f"{driver}/claim {claim.id}", plugin
