"""Volumes: bound claims with places, static volumes to choose from, classes that provision, limits of nodes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from e2e.differential.chance import Chance
from e2e.differential.machines import HOST, ZONE
from e2e.differential.shapes import NAMESPACES, Json, requirement
from e2e.objects import Manifest

STORAGE: Final = "storage.k8s.io/v1"
WEIGHTS: Final = {
    "volumes": 0.3,
    "static volumes": 0.6,
    "provisioning": 0.6,
    "storage capacity": 0.4,
    "required drivers": 0.3,
    "attach limits": 0.4,
    "exclusive volumes": 0.4,
    "inline disks": 0.2,
}
MISSING: Final = "there-is-none"


class Storage(NamedTuple):
    """What a group has for its pods: objects in the order of their creation, and claims by namespace."""

    objects: tuple[Manifest, ...] = ()
    claims: tuple[Manifest, ...] = ()

    def names(self, namespace: str) -> list[str]:
        """Give the names of the claims of a namespace."""
        return [each["metadata"]["name"] for each in self.claims if each["metadata"]["namespace"] == namespace]


def storage(chance: Chance, prefix: str, nodes: Sequence[Manifest]) -> Storage:
    """Make it, nothing where volumes are off."""
    if not chance.has("volumes"):
        return Storage()
    driver = f"{prefix}.csi.example.com"
    classes = [
        _storage_class(f"{prefix}-static", "kubernetes.io/no-provisioner"),
        _storage_class(f"{prefix}-dynamic", driver),
        {**_storage_class(f"{prefix}-now", driver), "volumeBindingMode": "Immediate"},
    ]
    if chance.half():
        allowed = {"matchLabelExpressions": [{"key": ZONE, "values": chance.picks(("a", "b", "c"), 1, 2)}]}
        classes[1]["allowedTopologies"] = [allowed]
    places = [each["metadata"]["name"] for each in nodes]
    bound = [_bound(chance, f"{prefix}-b{index}", driver, places) for index in range(chance.number(2, 6))]
    volumes = [volume for volume, _ in bound] + _static(chance, prefix, places)
    claims = [claim for _, claim in bound] + _unbound(chance, prefix, places)
    drivers = [*_capacities(chance, prefix, driver), *_limits(chance, driver, places)]
    return Storage((*classes, *drivers, *volumes), tuple(claims))


def mount(chance: Chance, spec: Json, namespace: str, store: Storage, *, waits: bool = True) -> None:
    """Write volumes into a pod's spec; a pod that runs has bound ones only."""
    volumes: list[Json] = []
    names = [each for each in store.names(namespace) if waits or "-b" in each]
    if names and chance.often(0.6):
        chosen = chance.picks(names, 1, 2)
        if waits and chance.often(0.04):
            chosen.append(MISSING)
        volumes += [{"persistentVolumeClaim": {"claimName": name}} for name in chosen]
    if chance.some("inline disks", 0.4):
        volumes.append(chance.pick(_INLINE))
    if volumes:
        spec["volumes"] = [{"name": f"v{index}", **each} for index, each in enumerate(volumes)]


def _storage_class(name: str, provisioner: str) -> Manifest:
    return {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "reclaimPolicy": "Retain" if "no-provisioner" in provisioner else "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _capacities(chance: Chance, prefix: str, driver: str) -> list[Manifest]:
    """Make the driver, and what it says that it has left per zone."""
    tells = chance.has("storage capacity")
    spec = {"attachRequired": True, "storageCapacity": tells}
    if chance.has("required drivers"):
        spec["preventPodSchedulingIfMissing"] = True  # KEP-5030, 1.37
    made: list[Manifest] = [{"apiVersion": STORAGE, "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec}]
    made += [
        {
            "apiVersion": STORAGE,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"{prefix}-{zone}", "namespace": NAMESPACES[0]},
            "storageClassName": f"{prefix}-dynamic",
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": chance.pick(("0", "5Gi", "50Gi")),
            **({"maximumVolumeSize": "4Gi"} if chance.seldom() else {}),
        }
        for zone in (("a", "b") if tells else ())
    ]
    return made


def _limits(chance: Chance, driver: str, places: Sequence[str]) -> list[Manifest]:
    """Make the CSINodes; some nodes do not have the driver."""
    made: list[Manifest] = []
    for place in places:
        drivers: list[Json] = []
        if chance.often(0.8):
            entry: Json = {"name": driver, "nodeID": place, "topologyKeys": [ZONE]}
            if chance.some("attach limits", 0.8):
                entry["allocatable"] = {"count": chance.pick((0, 1, 1, 2))}
            drivers.append(entry)
        made.append(
            {"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": place}, "spec": {"drivers": drivers}}
        )
    return made


def _bound(chance: Chance, name: str, driver: str, places: Sequence[str]) -> tuple[Manifest, Manifest]:
    """Make a volume and the claim that has it."""
    modes = ["ReadWriteOncePod"] if chance.some("exclusive volumes", 0.4) else ["ReadWriteOnce"]
    claim = _claim(name, chance.pick(NAMESPACES), "", "1Gi")
    claim["spec"] |= {"accessModes": modes, "volumeName": name}
    volume = _volume(name, "", "1Gi", {"csi": {"driver": driver, "volumeHandle": name}})
    volume["spec"] |= {"accessModes": modes, "claimRef": {**claim["metadata"], "kind": "PersistentVolumeClaim"}}
    match chance.pick(("anywhere", "zone", "zones", "host", "label")):
        case "zone":
            volume["spec"]["nodeAffinity"] = _on(ZONE, "a")
        case "zones":
            volume["spec"]["nodeAffinity"] = _on(ZONE, "a", "c")
        case "host":
            volume["spec"]["nodeAffinity"] = _on(HOST, chance.pick(places))
        case "label":
            volume["metadata"]["labels"] = {ZONE: chance.pick(("a", "b__c"))}
        case _:
            pass
    return volume, claim


def _static(chance: Chance, prefix: str, places: Sequence[str]) -> list[Manifest]:
    """Make volumes that wait for a claim, on some nodes."""
    if not chance.has("static volumes"):
        return []
    found = []
    for index in range(chance.number(2, 6)):
        volume = _volume(f"{prefix}-v{index}", f"{prefix}-static", chance.pick(("1Gi", "5Gi")), {})
        volume["spec"]["local"] = {"path": f"/disks/{index}"}
        volume["spec"]["nodeAffinity"] = _on(HOST, *chance.picks(places, 1, 2))
        if chance.often(0.3):
            volume["metadata"]["labels"] = {"speed": "high"}
        found.append(volume)
    return found


def _unbound(chance: Chance, prefix: str, places: Sequence[str]) -> list[Manifest]:
    """Make claims that wait for a pod, and ones that wait for a volume."""
    found = []
    for index in range(chance.number(2, 5) if chance.has("static volumes") else 0):
        claim = _claim(
            f"{prefix}-s{index}", chance.pick(NAMESPACES), f"{prefix}-static", chance.pick(("1Gi", "3Gi", "9Gi"))
        )
        if chance.often(0.2):
            claim["spec"]["selector"] = {"matchLabels": {"speed": "high"}}
        found.append(claim)
    for index in range(chance.number(2, 5) if chance.has("provisioning") else 0):
        claim = _claim(f"{prefix}-d{index}", chance.pick(NAMESPACES), f"{prefix}-dynamic", chance.pick(("1Gi", "9Gi")))
        if chance.often(0.15):
            claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": chance.pick(places)}
        found.append(claim)
    if chance.often(0.3):
        found.append(_claim(f"{prefix}-i", chance.pick(NAMESPACES), f"{prefix}-now", "1Gi"))
    if chance.often(0.3):
        found.append(_claim(f"{prefix}-n", chance.pick(NAMESPACES), "no-such-class", "1Gi"))
    return found


def _claim(name: str, namespace: str, storage_class: str, size: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }


def _volume(name: str, storage_class: str, size: str, source: Json) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
        },
    }


def _on(key: str, *values: str) -> Json:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement(key, "In", *values)]}]}}


_INLINE: Final[tuple[Json, ...]] = (
    {"gcePersistentDisk": {"pdName": "disk-1"}},
    {"gcePersistentDisk": {"pdName": "disk-1", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"rbd": {"monitors": ["m1", "m2"], "image": "image-1"}},
    {"rbd": {"monitors": ["m2"], "image": "image-1", "readOnly": True}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}},
    {"emptyDir": {}},
)
