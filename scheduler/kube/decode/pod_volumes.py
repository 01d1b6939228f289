"""Entries of spec.volumes that decide where a pod may run (core/v1 Volume)."""

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.kube.decode.shared_fields import Wire
from solver.domain import DiskKind, InlineDisk, PodVolume, VolumeClaimId


class _ClaimSource(Wire, frozen=True):
    claim_name: str = ""


class _Ephemeral(Wire, frozen=True):
    """A claim made for the pod; only matters that it is there."""


class _Gce(Wire, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class _Aws(Wire, frozen=True):
    volume_id: str = msgspec.field(name="volumeID", default="")


class _Iscsi(Wire, frozen=True):
    iqn: str = ""
    read_only: bool = False


class _Rbd(Wire, frozen=True):
    monitors: tuple[str, ...] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class VolumeWire(Wire, frozen=True):
    """core/v1 Volume."""

    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: _Ephemeral | None = None
    gce_persistent_disk: _Gce | None = None
    aws_elastic_block_store: _Aws | None = None
    iscsi: _Iscsi | None = None
    rbd: _Rbd | None = None


def pod_volumes(wires: Iterable[VolumeWire], namespace: str, pod_name: str) -> tuple[PodVolume, ...]:
    """Keep the entries that are claims or disks; a claim that is made for the pod is named after pod and volume."""
    return tuple(_entries(wires, namespace, pod_name))


def _entries(wires: Iterable[VolumeWire], namespace: str, pod_name: str) -> Iterator[PodVolume]:
    for each in wires:
        if each.persistent_volume_claim is not None:
            claim = VolumeClaimId(namespace, each.persistent_volume_claim.claim_name)
            yield PodVolume(name=each.name, claim=claim)
        elif each.ephemeral is not None:
            claim = VolumeClaimId(namespace, f"{pod_name}-{each.name}")
            yield PodVolume(name=each.name, claim=claim, is_ephemeral=True)
        elif (disk := _disk(each)) is not None:
            yield PodVolume(name=each.name, disk=disk)


def _disk(wire: VolumeWire) -> InlineDisk | None:
    if wire.gce_persistent_disk is not None:
        gce = wire.gce_persistent_disk
        return InlineDisk(kind=DiskKind.GCE, name=gce.pd_name, is_read_only=gce.read_only)
    if wire.aws_elastic_block_store is not None:
        return InlineDisk(kind=DiskKind.AWS, name=wire.aws_elastic_block_store.volume_id)
    if wire.iscsi is not None:
        return InlineDisk(kind=DiskKind.ISCSI, name=wire.iscsi.iqn, is_read_only=wire.iscsi.read_only)
    if wire.rbd is not None:
        rbd = wire.rbd
        name = f"{rbd.pool}/{rbd.image}"
        return InlineDisk(kind=DiskKind.RBD, name=name, is_read_only=rbd.read_only, monitors=rbd.monitors or ())
    return None
