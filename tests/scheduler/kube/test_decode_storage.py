"""Volumes, claims and what is known of storage, from the API's JSON."""

import json
from typing import Any

import pytest

from scheduler.change import Kind, Object
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError
from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DiskKind,
    InlineDisk,
    LabelRequirement,
    LabelSelector,
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodVolume,
    StorageClass,
    VolumeAttachment,
    VolumeClaimId,
)

GI = 2**30 * 10**9
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
SELECTED = LabelSelector(
    requirements=(
        LabelRequirement(key="a", operator="In", values=("b",)),
        LabelRequirement(key="c", operator="Exists"),
    )
)


def decoded(kind: Kind, **body: Any) -> Object:
    return decode(kind, json.dumps(body).encode())


def volume(annotations: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    metadata = {"name": "v", "uid": "u", "resourceVersion": "7", "labels": {"z": "1"}, "annotations": annotations}
    found = decoded(Kind.VOLUMES, metadata=metadata, spec=spec, status={"phase": "Available"})
    assert isinstance(found, PersistentVolume)
    return found


def claim(annotations: dict[str, str] | None = None, **spec: Any) -> PersistentVolumeClaim:
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "annotations": annotations}
    found = decoded(Kind.VOLUME_CLAIMS, metadata=metadata, spec=spec, status={"phase": "Pending"})
    assert isinstance(found, PersistentVolumeClaim)
    return found


def test_a_volume() -> None:
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    found = volume(
        capacity={"storage": "1Gi"},
        accessModes=["ReadWriteOnce"],
        storageClassName="fast",
        volumeMode="Block",
        volumeAttributesClassName="gold",
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
        claimRef={"namespace": "ns", "name": "c", "uid": "cu"},
        csi={"driver": "d", "volumeHandle": "h"},
    )
    assert (found.name, found.uid, found.resource_version, found.phase) == ("v", "u", "7", "Available")
    assert (found.capacity, found.access_modes, found.mode) == (GI, ("ReadWriteOnce",), "Block")
    assert (found.storage_class, found.attributes_class, found.labels) == ("fast", "gold", (("z", "1"),))
    assert (found.claim, found.claim_uid) == (VolumeClaimId("ns", "c"), "cu")
    assert (found.driver, found.handle, found.migrated_from) == ("d", "h", "")
    assert found.node_affinity is not None
    assert found.node_affinity.terms[0].match_expressions == (
        NodeSelectorRequirement(key="zone", operator="In", values=("a",)),
    )


def test_a_bare_volume() -> None:
    found = volume()
    assert (found.mode, found.capacity, found.claim, found.node_affinity) == ("Filesystem", 0, None, None)


def test_the_beta_annotation_names_the_class_before_the_field() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert volume(annotations, storageClassName="new").storage_class == "old"
    assert claim(annotations, storageClassName="new").storage_class == "old"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
            ("ebs.csi.aws.com", "vol-1", "kubernetes.io/aws-ebs"),
            id="EBS",
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "/d"}}, ("disk.csi.azure.com", "/d", "kubernetes.io/azure-disk"), id="Azure"
        ),
        pytest.param(
            {"cinder": {"volumeID": "x"}}, ("cinder.csi.openstack.org", "x", "kubernetes.io/cinder"), id="Cinder"
        ),
        pytest.param({"hostPath": {"path": "/"}}, ("", "", ""), id="none that is attached"),
    ],
)
def test_volumes_in_the_tree_are_those_of_their_drivers(source: dict[str, Any], expected: tuple[str, ...]) -> None:
    found = volume(**source)
    assert (found.driver, found.handle, found.migrated_from) == expected


def test_a_claim() -> None:
    found = claim(
        {"volume.kubernetes.io/selected-node": "n1", "pv.kubernetes.io/bind-completed": "yes"},
        accessModes=["ReadWriteOncePod"],
        selector=SELECTOR,
        resources={"requests": {"storage": "1Gi"}},
        volumeName="v",
        storageClassName="fast",
    )
    assert (found.id, found.uid, found.volume, found.storage_class) == (VolumeClaimId("ns", "c"), "u", "v", "fast")
    assert (found.request, found.access_modes, found.selector) == (GI, ("ReadWriteOncePod",), SELECTED)
    assert (found.selected_node, found.is_bind_completed, found.is_bound) == ("n1", True, True)


def test_a_bare_claim() -> None:
    found = claim()
    assert (found.request, found.selector, found.selected_node, found.mode) == (None, None, None, "Filesystem")
    assert not found.is_bound
    assert not claim(volumeName="v").is_bound


def test_a_claim_knows_the_pod_that_it_was_made_for() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": True}
    found = decoded(
        Kind.VOLUME_CLAIMS,
        metadata={"name": "c", "namespace": "ns", "ownerReferences": [owner], "deletionTimestamp": "2026-01-01"},
        status={"phase": "Lost"},
    )
    assert isinstance(found, PersistentVolumeClaim)
    assert (found.owner_pod_uid, found.is_deleting, found.is_lost) == ("pu", True, True)


def test_a_size_that_cannot_be_read_names_its_field() -> None:
    with pytest.raises(DecodeError) as caught:
        volume(capacity={"storage": "much"})
    assert caught.value.field == "spec.capacity[storage]"


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        pytest.param(
            Kind.STORAGE_CLASSES,
            {
                "metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "p",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a", "b"]}]}],
            },
            StorageClass(
                name="s",
                provisioner="p",
                waits_for_consumer=True,
                allowed_topologies=((("z", ("a", "b")),),),
                is_default=True,
            ),
            id="class",
        ),
        pytest.param(
            Kind.STORAGE_CLASSES,
            {"metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "Immediate"},
            StorageClass(name="s", provisioner="p"),
            id="class that does not wait",
        ),
        pytest.param(
            Kind.NODE_DRIVERS,
            {
                "metadata": {"name": "n", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "a,b"}},
                "spec": {
                    "drivers": [{"name": "y"}, {"name": "x", "allocatable": {"count": 0}, "topologyKeys": ["l", "k"]}]
                },
            },
            CSINode(
                node="n",
                limits=(("x", 0), ("y", None)),
                topology_keys=(("x", ("k", "l")), ("y", ())),
                migrated=("a", "b"),
            ),
            id="drivers of a node",
        ),
        pytest.param(
            Kind.STORAGE_CAPACITIES,
            {
                "metadata": {"name": "c", "namespace": "ns"},
                "storageClassName": "s",
                "nodeTopology": SELECTOR,
                "capacity": "10Gi",
                "maximumVolumeSize": "1Gi",
            },
            CSIStorageCapacity(namespace="ns", name="c", storage_class="s", topology=SELECTED, most=GI),
            id="capacity",
        ),
        pytest.param(
            Kind.STORAGE_CAPACITIES,
            {"metadata": {"name": "c", "namespace": "ns"}, "storageClassName": "s", "capacity": "1Gi"},
            CSIStorageCapacity(namespace="ns", name="c", storage_class="s", most=GI),
            id="capacity that no node reaches",
        ),
        pytest.param(
            Kind.STORAGE_DRIVERS,
            {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}},
            CSIDriver(name="d", tracks_capacity=True),
            id="driver",
        ),
        pytest.param(
            Kind.STORAGE_DRIVERS,
            {"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": True}},
            CSIDriver(name="d", is_required=True),
            id="driver that must be on the node",
        ),
        pytest.param(
            Kind.ATTACHMENTS,
            {
                "metadata": {"name": "a"},
                "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            },
            VolumeAttachment(name="a", attacher="d", node="n", volume="v"),
            id="attachment",
        ),
    ],
)
def test_what_is_known_of_storage(kind: Kind, body: dict[str, Any], expected: Object) -> None:
    assert decoded(kind, **body) == expected


def test_volumes_of_a_pod_that_decide_something() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
        {"name": "e", "awsElasticBlockStore": {"volumeID": "vol", "readOnly": True}},
        {"name": "f", "iscsi": {"iqn": "iqn", "targetPortal": "t", "lun": 0}},
        {"name": "g", "rbd": {"monitors": ["m"], "image": "i", "readOnly": True}},
    ]
    found = decoded(Kind.PODS, metadata={"name": "p", "namespace": "ns"}, spec={"containers": [], "volumes": volumes})
    assert isinstance(found, Pod)
    assert found.volumes == (
        PodVolume(name="a", claim=VolumeClaimId("ns", "data")),
        PodVolume(name="b", claim=VolumeClaimId("ns", "p-b"), is_ephemeral=True),
        PodVolume(name="d", disk=InlineDisk(kind=DiskKind.GCE, name="pd", is_read_only=True)),
        PodVolume(name="e", disk=InlineDisk(kind=DiskKind.AWS, name="vol")),
        PodVolume(name="f", disk=InlineDisk(kind=DiskKind.ISCSI, name="iqn")),
        PodVolume(name="g", disk=InlineDisk(kind=DiskKind.RBD, name="rbd/i", is_read_only=True, monitors=("m",))),
    )
    assert found.volume_claims == (VolumeClaimId("ns", "data"), VolumeClaimId("ns", "p-b"))
