"""What every node and every slice has, of any vendor, and the fleet that they add up to."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

Manifest = dict[str, Any]

DEVICES_PER_SLICE = 128  # ResourceSliceMaxDevices of resource.k8s.io/v1
DEVICES_PER_ADVANCED_SLICE = 64  # the same, where a device has taints, counters or lists
ADVANCED = ("taints", "consumesCounters")
NAMES = uuid.UUID("6f1c2f0e-6d2b-4b7a-9a53-1f6f2a9f6f10")  # of our own, so that uuids are stable and unique
KIB_PER_GIB = 2**20
RESERVED_CPU = 2  # what a kubelet keeps for the system of a large machine
RESERVED_MEMORY_GIB = 12
KUBELET_VERSION = "v1.36.3"
IMAGES = 50  # as many as a kubelet reports
STARTED = "2026-09-01T06:00:00Z"


class Version(str):
    """A semantic version: published as `version`, while any other text is published as `string`."""

    __slots__ = ()


Attribute = str | int | bool | Version


@dataclass(frozen=True, slots=True)
class Fleet:
    """The manifests of a cluster's hardware, in the order in which they are created."""

    nodes: tuple[Manifest, ...] = ()
    classes: tuple[Manifest, ...] = ()
    slices: tuple[Manifest, ...] = ()

    def __add__(self, other: Self) -> "Fleet":
        """Put two fleets together; a class that both have stays once."""
        known = {each["metadata"]["name"] for each in self.classes}
        classes = tuple(each for each in other.classes if each["metadata"]["name"] not in known)
        return Fleet(self.nodes + other.nodes, self.classes + classes, self.slices + other.slices)

    def device_count(self, driver: str) -> int:
        """Count the devices that a driver publishes."""
        return sum(len(each["spec"]["devices"]) for each in self.slices if each["spec"]["driver"] == driver)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a node offers besides devices; `memory_gib` and `disk_gib` in GiB."""

    instance_type: str
    cpu: int
    memory_gib: int
    disk_gib: int


def node(name: str, machine: Machine, *, zone: str = "zone-a", labels: Mapping[str, str] | None = None) -> Manifest:
    """Make a Ready node with 110 pods, as its kubelet would register it."""
    region = "region-1"
    # Firmware and kernel keep a part of the memory, so that no machine reports a round number.
    memory_kib = machine.memory_gib * KIB_PER_GIB * 63 // 64 - 76
    disk_kib = machine.disk_gib * KIB_PER_GIB * 15 // 16 - 20
    capacity = {
        "cpu": str(machine.cpu),
        "memory": f"{memory_kib}Ki",
        "ephemeral-storage": f"{disk_kib}Ki",
        "pods": "110",
    }
    allocatable = {
        **capacity,
        "cpu": str(machine.cpu - RESERVED_CPU),
        "memory": f"{memory_kib - RESERVED_MEMORY_GIB * KIB_PER_GIB}Ki",
        "ephemeral-storage": str(disk_kib * 1024 * 9 // 10),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": machine.instance_type,
                "topology.kubernetes.io/region": region,
                "topology.kubernetes.io/zone": f"{region}-{zone}",
                **(labels or {}),
            },
        },
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "kubelet is posting ready status",
                    "lastHeartbeatTime": STARTED,
                    "lastTransitionTime": STARTED,
                }
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": stable_uuid(name, "boot"),
                "containerRuntimeVersion": "containerd://2.2.1",
                "kernelVersion": "6.8.0-60-generic",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": stable_uuid(name, "machine").replace("-", ""),
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.3 LTS",
                "systemUUID": stable_uuid(name, "system"),
            },
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def images() -> Iterator[Manifest]:
    """Make the images of a node, half of them too small for image locality."""
    for number in range(IMAGES):
        name = f"registry.example.com/team/image-{number:02}"
        names = [f"{name}@sha256:{number:064x}", f"{name}:v1.{number}.0"]
        yield {"names": names, "sizeBytes": (1 if number % 2 else 100) * 2**20 + number}


def device_class(name: str, expression: str, *, extended_resource: str = "") -> Manifest:
    """Make a DeviceClass with one selector; `extended_resource` is the name that pods without claims may use."""
    spec: Manifest = {"selectors": [{"cel": {"expression": expression}}]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def device(name: str, attributes: Mapping[str, Attribute], capacity: Mapping[str, str] | None = None) -> Manifest:
    """Make a device; the type of each attribute follows from its value, capacities are quantities."""
    made: Manifest = {"name": name, "attributes": {key: _typed(value) for key, value in attributes.items()}}
    if capacity:
        made["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return made


def slices(driver: str, node_name: str, devices: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """Publish a node's devices as its driver does: one pool named like the node, in slices as large as allowed."""
    is_advanced = any(name in each for each in devices for name in ADVANCED)
    size = DEVICES_PER_ADVANCED_SLICE if is_advanced else DEVICES_PER_SLICE
    parts = [list(devices[start : start + size]) for start in range(0, len(devices), size)]
    return tuple(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node_name}-{driver}-{index}"},
            "spec": {
                "driver": driver,
                "nodeName": node_name,
                "pool": {"name": node_name, "generation": 1, "resourceSliceCount": len(parts)},
                "devices": part,
            },
        }
        for index, part in enumerate(parts)
    )


def stable_uuid(*parts: object) -> str:
    """Make the uuid that belongs to these words."""
    return str(uuid.uuid5(NAMES, "/".join(map(str, parts))))


def _typed(value: Attribute) -> Manifest:
    match value:
        case Version():
            return {"version": str(value)}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case _:
            return {"string": value}
