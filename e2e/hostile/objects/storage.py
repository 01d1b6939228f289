"""Volumes, their claims, and what drivers and clusters say of storage."""

from typing import Final

from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import DRIVER, HELD_NODE, NAMESPACE, OWN_NODES, Manifest, Table, metadata, node_name
from scheduler.change import Kind

_ANNOTATIONS: Final = (
    "volume.kubernetes.io/selected-node",
    "pv.kubernetes.io/bind-completed",
    "volume.beta.kubernetes.io/storage-class",
    "storage.alpha.kubernetes.io/migrated-plugins",
)


def _volume(draw: Draw) -> Manifest:
    return {
        "metadata": metadata(draw, Kind.VOLUMES, labels={}, annotations={}),
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "mallory",
            "csi": {"driver": DRIVER, "volumeHandle": draw.word()},
        },
    }


def _volume_claim(draw: Draw) -> Manifest:
    return {
        "metadata": metadata(draw, Kind.VOLUME_CLAIMS, annotations={}),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "mallory",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _storage_class(draw: Draw) -> Manifest:
    mode = draw.one(("WaitForFirstConsumer", "Immediate"))
    return {
        "metadata": metadata(draw, Kind.STORAGE_CLASSES, annotations={}),
        "provisioner": DRIVER,
        "volumeBindingMode": mode,
    }


def _node_drivers(draw: Draw) -> Manifest:
    drivers = [{"name": DRIVER, "nodeID": "x", "topologyKeys": ["mallory.example.com/rack"]}]
    return {"metadata": metadata(draw, Kind.NODE_DRIVERS, annotations={}), "spec": {"drivers": drivers}}


def _storage_capacity(draw: Draw) -> Manifest:
    topology = {"matchLabels": {"mallory.example.com/rack": "r"}}
    made = metadata(draw, Kind.STORAGE_CAPACITIES)
    return {"metadata": made, "storageClassName": "mallory", "nodeTopology": topology, "capacity": "1Gi"}


def _driver(draw: Draw) -> Manifest:
    return {"metadata": metadata(draw, Kind.STORAGE_DRIVERS), "spec": {"storageCapacity": draw.chance(0.5)}}


def _attachment(draw: Draw) -> Manifest:
    source = {"persistentVolumeName": f"mallory-{draw.below(50_000)}"}
    spec = {"attacher": DRIVER, "nodeName": node_name(draw), "source": source}
    return {"metadata": metadata(draw, Kind.ATTACHMENTS), "spec": spec}


VOLUMES: Final = Table(Kind.VOLUMES, _volume)
VOLUME_CLAIMS: Final = Table(Kind.VOLUME_CLAIMS, _volume_claim)
STORAGE_CLASSES: Final = Table(Kind.STORAGE_CLASSES, _storage_class)
NODE_DRIVERS: Final = Table(Kind.NODE_DRIVERS, _node_drivers)
STORAGE_CAPACITIES: Final = Table(Kind.STORAGE_CAPACITIES, _storage_capacity)
STORAGE_DRIVERS: Final = Table(Kind.STORAGE_DRIVERS, _driver)
ATTACHMENTS: Final = Table(Kind.ATTACHMENTS, _attachment)


@VOLUMES.twist("a size at the limit")
def _size(draw: Draw, volume: Manifest) -> None:
    volume["spec"]["capacity"]["storage"] = draw.one(("1", "8Ei", "9223372036854775807", "1e30"))


@VOLUMES.twist("nodes by very many terms")
def _nodes(draw: Draw, volume: Manifest) -> None:
    values = draw.many(1, 200, lambda _: draw.label_value())
    terms = [{"matchExpressions": [{"key": "mallory.example.com/rack", "operator": "In", "values": values}]}]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms * draw.one((1, 100))}}


@VOLUMES.twist("a claim that is another's")
def _reference(draw: Draw, volume: Manifest) -> None:
    namespace, name = draw.one(
        ((NAMESPACE, f"mallory-{draw.below(50_000)}"), ("good", "good-0"), (NAMESPACE, "x" * 253))
    )
    volume["spec"]["claimRef"] = {"namespace": namespace, "name": name, "uid": draw.word()}


@VOLUMES.twist("many labels")
def _labels(draw: Draw, volume: Manifest) -> None:
    volume["metadata"]["labels"] = draw.labels(500)


@VOLUMES.twist("fields that are none", is_admitted=False)
def _wrong_volume(draw: Draw, volume: Manifest) -> None:
    draw.do(
        lambda: volume["spec"].update(capacity={"storage": draw.no_quantity()}),
        lambda: volume["spec"].update({draw.one(("nodeAffinity", "claimRef", "accessModes", "csi")): draw.leaf()}),
    )


@VOLUME_CLAIMS.twist("a size at the limit")
def _claim_size(draw: Draw, claim: Manifest) -> None:
    claim["spec"]["resources"]["requests"]["storage"] = draw.one(("1", "8Ei", "9223372036854775807", "1e30"))


@VOLUME_CLAIMS.twist("annotations that controllers write")
def _annotations(draw: Draw, claim: Manifest) -> None:
    claim["metadata"]["annotations"][draw.one(_ANNOTATIONS)] = draw.one((draw.text(5000), node_name(draw), "yes"))


@VOLUME_CLAIMS.twist("a volume that is not there")
def _bound(draw: Draw, claim: Manifest) -> None:
    claim["spec"]["volumeName"] = f"mallory-{draw.below(50_000)}"


@VOLUME_CLAIMS.twist("a selector of many labels")
def _selector(draw: Draw, claim: Manifest) -> None:
    claim["spec"]["selector"] = {"matchLabels": draw.labels(300)}


@VOLUME_CLAIMS.twist("fields that are none", is_admitted=False)
def _wrong_claim(draw: Draw, claim: Manifest) -> None:
    draw.do(
        lambda: claim["spec"]["resources"]["requests"].update(storage=draw.no_quantity()),
        lambda: claim["spec"].update({draw.one(("selector", "accessModes", "volumeMode")): draw.leaf()}),
    )


@STORAGE_CLASSES.twist("topologies of many terms")
def _topologies(draw: Draw, class_: Manifest) -> None:
    values = draw.many(1, 300, lambda index: f"v{index}")
    terms = [{"matchLabelExpressions": [{"key": f"k{index}", "values": values}]} for index in range(draw.one((1, 40)))]
    class_["allowedTopologies"] = terms


@STORAGE_CLASSES.twist("the default of all")
def _default(_: Draw, class_: Manifest) -> None:
    class_["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] = "true"


@STORAGE_CLASSES.twist("fields that are none", is_admitted=False)
def _wrong_class(draw: Draw, class_: Manifest) -> None:
    class_[draw.one(("allowedTopologies", "provisioner", "volumeBindingMode"))] = draw.leaf()


@NODE_DRIVERS.twist("a limit at the limit")
def _limit(draw: Draw, drivers: Manifest) -> None:
    drivers["spec"]["drivers"][0]["allocatable"] = {"count": draw.one((0, 1, 2**31 - 1))}


@NODE_DRIVERS.twist("the drivers of a node that is there")
def _of_node(draw: Draw, drivers: Manifest) -> None:
    drivers["metadata"]["name"] = draw.one((HELD_NODE, *OWN_NODES))
    drivers["spec"]["drivers"][0]["allocatable"] = {"count": 0}


@NODE_DRIVERS.twist("many drivers")
def _many(draw: Draw, drivers: Manifest) -> None:
    drivers["spec"]["drivers"] = [
        {"name": f"d{index}.example.com", "nodeID": "x", "topologyKeys": draw.many(1, 20, lambda key: f"k{key}")}
        for index in range(200)
    ]


@NODE_DRIVERS.twist("migrated plugins of any text")
def _migrated(draw: Draw, drivers: Manifest) -> None:
    drivers["metadata"]["annotations"][_ANNOTATIONS[3]] = draw.one(
        ("," * 100_000, draw.text(), "kubernetes.io/aws-ebs")
    )


@NODE_DRIVERS.twist("fields that are none", is_admitted=False)
def _wrong_drivers(draw: Draw, drivers: Manifest) -> None:
    drivers["spec"]["drivers"][0][draw.one(("topologyKeys", "allocatable", "name"))] = draw.leaf()


@STORAGE_CAPACITIES.twist("a size at the limit")
def _capacity(draw: Draw, capacity: Manifest) -> None:
    capacity[draw.one(("capacity", "maximumVolumeSize"))] = draw.one(("0", "1", "8Ei", "1e30"))


@STORAGE_CAPACITIES.twist("a topology of many labels")
def _topology(draw: Draw, capacity: Manifest) -> None:
    capacity["nodeTopology"] = draw.one(({}, {"matchLabels": draw.labels(300)}))


@STORAGE_CAPACITIES.twist("a size that is none", is_admitted=False)
def _no_capacity(draw: Draw, capacity: Manifest) -> None:
    capacity[draw.one(("capacity", "maximumVolumeSize", "nodeTopology"))] = draw.one((draw.no_quantity(), draw.leaf()))


@STORAGE_DRIVERS.twist("a driver that is none", is_admitted=False)
def _wrong_driver(draw: Draw, driver: Manifest) -> None:
    driver["spec"] = draw.one((draw.leaf(), {"storageCapacity": draw.leaf()}))


@STORAGE_DRIVERS.twist("a driver that tracks capacity")
def _tracks(_: Draw, driver: Manifest) -> None:
    driver["spec"]["storageCapacity"] = True


@ATTACHMENTS.twist("a node that is there")
def _attached(draw: Draw, attachment: Manifest) -> None:
    attachment["spec"]["nodeName"] = draw.one((HELD_NODE, *OWN_NODES))


@ATTACHMENTS.twist("fields that are none", is_admitted=False)
def _wrong_attachment(draw: Draw, attachment: Manifest) -> None:
    attachment["spec"][draw.one(("attacher", "nodeName", "source"))] = draw.leaf()
