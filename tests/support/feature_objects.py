"""
What users and drivers write, as manifests: nodes, the devices that real drivers publish, claims and pods.

The devices are named, described and counted as their drivers do it: dra-example-driver, NVIDIA's and AMD's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from e2e.controlplane import versions
from tests.support.feature_stage import Json, Side

EXAMPLE = "gpu.example.com"
NIC = "net.example.com"
NVIDIA = "gpu.nvidia.com"
AMD = "gpu.amd.com"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


# The cluster


def namespace(side: Side, *, is_admin: bool = False) -> Json:
    labels = {"resource.kubernetes.io/admin-access": "true"} if is_admin else {}
    return {"kind": "Namespace", "metadata": {"name": side.word, "labels": labels}}


def node(side: Side, short: str, **labels: str) -> Json:
    return {"kind": "Node", "metadata": {"name": side.name(short), "labels": {"scene": side.word, **labels}}}


def device_class(side: Side, driver: str = EXAMPLE, *selectors: str, short: str = "", **spec: Any) -> Json:
    """A class of a driver's devices, called as the driver's installation calls it behind the side's word."""
    expressions = (f"device.driver == '{driver}'", *selectors)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": side.name(short or driver)},
        "spec": {"selectors": [{"cel": {"expression": each}} for each in expressions], **spec},
    }


def resource_slice(
    side: Side,
    pool: str,
    devices: Sequence[Json] = (),
    *,
    driver: str = EXAMPLE,
    at: Mapping[str, Any] | None = None,
    part: str = "",
    generation: int = 1,
    count: int = 1,
    counters: Sequence[Json] = (),
) -> Json:
    """One slice of a pool; without `at` it is local to the node of the pool's short name."""
    content = {"sharedCounters": list(counters)} if counters else {"devices": list(devices)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{side.name(pool)}-{driver}{part}"},
        "spec": {
            "driver": driver,
            "pool": {"name": side.name(pool), "generation": generation, "resourceSliceCount": count},
            **(at or {"nodeName": side.name(pool)}),
            **content,
        },
    }


def on(side: Side, **labels: str) -> Json:
    """The node selector of devices that several nodes of a side reach."""
    wanted = {"scene": side.word, **labels}
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}


def taint_rule(side: Side, name: str, pool: str, device: str, effect: str = "NoSchedule") -> Json:
    return {
        "apiVersion": versions.taint_rules(),
        "kind": "DeviceTaintRule",
        "metadata": {"name": side.name(name)},
        "spec": {
            "deviceSelector": {"pool": side.name(pool), "device": device},
            "taint": {"key": "example.com/maintenance", "effect": effect},
        },
    }


# What drivers publish


def gpu(index: int, *, model: str = "LATEST-GPU-MODEL", memory: str = "80Gi", **fields: Any) -> Json:
    """A card of the dra-example-driver."""
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "index": {"int": index},
            "uuid": {"string": f"gpu-18db0e85-99e9-c746-8531-{index:012x}"},
            "model": {"string": model},
            "driverVersion": {"version": "1.0.0"},
        },
        "capacity": {"memory": {"value": memory}, "compute": {"value": "100"}},
        **fields,
    }


def gpus(count: int) -> list[Json]:
    return [gpu(index) for index in range(count)]


def partitions(index: int, count: int) -> list[Json]:
    """A partitionable card of the dra-example-driver: equal parts, the whole one last."""
    parts = [_partition(index, f"partition-{part}", {"partition": {"int": part}}, count) for part in range(count)]
    return [*parts, _partition(index, "full", {"full": {"bool": True}}, 1)]


def _partition(index: int, name: str, own: Json, share: int) -> Json:
    amounts = {"memory": {"value": f"{80 // share}Gi"}, "compute": {"value": str(100 // share)}}
    return {
        "name": f"gpu-{index}-{name}",
        "attributes": {"index": {"int": index}, "partitionable": {"bool": True}, **own},
        "capacity": amounts,
        "consumesCounters": [{"counterSet": f"gpu-{index}-counters", "counters": amounts}],
    }


def card_counters(*indices: int) -> list[Json]:
    amounts = {"memory": {"value": "80Gi"}, "compute": {"value": "100"}}
    return [{"name": f"gpu-{index}-counters", "counters": amounts} for index in indices]


def nic(index: int) -> Json:
    """A card of the dra-example-driver's net profile: virtual functions and bandwidth are shared out."""
    bandwidth = {"default": "1G", "validRange": {"min": "100M", "step": "1M"}}
    return {
        "name": f"nic-{index}",
        "attributes": {"index": {"int": index}},
        "allowMultipleAllocations": True,
        "capacity": {
            "vfs": {"value": "100", "requestPolicy": {"default": "1", "validValues": ["1"]}},
            "ingressBandwidth": {"value": "100G", "requestPolicy": bandwidth},
            "egressBandwidth": {"value": "100G", "requestPolicy": bandwidth},
        },
    }


def nvidia(index: int, product: str, memory: str, *, root: str = "pci0000:00") -> Json:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-4cf8db2d-06c0-7d70-1a51-{index:012x}"},
            "productName": {"string": product},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper" if "H100" in product else "Ampere"},
            "driverVersion": {"version": "580.65.6"},
            PCIE_ROOT: {"string": root},
        },
        "capacity": {"memory": {"value": memory}},
    }


def migs(*, parent: int = 0) -> list[Json]:
    """The MIG placements of one card with 8 memory slices, in an order that first-fit trips over."""
    shapes = [("1g.10gb", 1, start) for start in (3, 5, 1, 4, 0, 2, 6)]
    shapes += [("2g.20gb", 2, start) for start in (2, 4, 0)] + [("3g.40gb", 4, start) for start in (4, 0)]
    return [_mig(parent, profile, size, start) for profile, size, start in shapes]


def _mig(parent: int, profile: str, size: int, start: int) -> Json:
    slices = {f"memory-slice-{each}": {"value": "1"} for each in range(start, start + size)}
    return {
        "name": f"gpu-{parent}-mig-{profile.replace('.', '-')}-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": profile},
            "parentUUID": {"string": f"GPU-4cf8db2d-06c0-7d70-1a51-{parent:012x}"},
        },
        "capacity": {"memory": {"value": f"{size * 10}Gi"}},
        "consumesCounters": [{"counterSet": f"gpu-{parent}-counter-set", "counters": slices}],
    }


def mig_counters(*, parent: int = 0) -> list[Json]:
    slices = {f"memory-slice-{each}": {"value": "1"} for each in range(8)}
    return [{"name": f"gpu-{parent}-counter-set", "counters": slices}]


def amd(card: int) -> Json:
    return {
        "name": f"gpu-{card}-{card + 128}",
        "attributes": {
            "type": {"string": "amdgpu"},
            "productName": {"string": "AMD_Instinct_MI300X_OAM"},
            "driverVersion": {"version": "6.12.12"},
            "cardIndex": {"int": card},
        },
        "capacity": {"memory": {"value": "192Gi"}, "computeUnits": {"value": "304"}},
    }


# What users write


def exactly(side: Side, name: str = "gpu", *, of: str = EXAMPLE, cel: Sequence[str] = (), **fields: Any) -> Json:
    return {"name": name, "exactly": wanted(side, of=of, cel=cel, **fields)}


def wanted(side: Side, *, of: str = EXAMPLE, cel: Sequence[str] = (), **fields: Any) -> Json:
    selectors = {"selectors": [{"cel": {"expression": each}} for each in cel]} if cel else {}
    return {"deviceClassName": side.name(of), **selectors, **fields}


def first_available(name: str, **alternatives: Json) -> Json:
    return {"name": name, "firstAvailable": [{"name": each, **asked} for each, asked in alternatives.items()]}


def claim(name: str, *requests: Json, **devices: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def template(name: str, *requests: Json, **devices: Any) -> Json:
    made = claim(name, *requests, **devices)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def pod(
    side: Side,
    name: str,
    *templates: str,
    claims: Sequence[str] = (),
    containers: int = 1,
    init: bool = False,
    run_seconds: float | None = None,
    on_node: str = "",
) -> Json:
    """A pod whose containers all use all its claims: those from templates, and those named in `claims`."""
    entries = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    entries += [{"name": each, "resourceClaimName": each} for each in claims]
    used = {"resources": {"claims": [{"name": each["name"]} for each in entries]}, "image": "ubuntu:24.04"}
    place = {"scene": side.word} | ({"kubernetes.io/hostname": side.name(on_node)} if on_node else {})
    spec: Json = {
        "schedulerName": side.scheduler,
        "nodeSelector": place,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": f"ctr{index}", **used} for index in range(containers)],
        "resourceClaims": entries,
        # One mirror of the real thing: nodes of a test cluster keep the taint of a node that has just come.
        "tolerations": [{"operator": "Exists"}],
    }
    if init:
        spec["initContainers"] = [{"name": "init0", **used}]
    annotations = {} if run_seconds is None else {"dovetail.dev/run-seconds": str(run_seconds)}
    return {"kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}
