"""Lists and maps of nodes, namespaces, storage, disruption budgets, PodGroups and DeviceHolds."""

from typing import Any, Final

from e2e.hostile.extremes.entries import (
    EMPTY,
    LABEL_SELECTOR,
    METADATA,
    Entries,
    Entry,
    Manifest,
    name,
    node_selector,
    with_prefix,
)

_LARGE_IMAGE: Final = 64 * 2**20


def _image(index: int) -> Manifest:
    return {"names": [name(index)], "sizeBytes": _LARGE_IMAGE}


def _amount(index: int) -> tuple[str, str]:
    return f"a.b/{name(index)}", str(index + 1)


_CONDITION: Final[dict[str, Any]] = {"status": "True", "reason": "A", "message": "", "lastTransitionTime": None}

NODE_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.taints[]": Entry(lambda index: {"key": name(index), "effect": "NoSchedule"}),
    "spec.podCIDRs[]": Entry(lambda index: f"10.0.{index}.0/24", most=1),
    "status.allocatable{}": Entry(_amount, twin="capacity"),
    "status.images[]": Entry(_image),
    "status.images[].names[]": Entry(name),
    "status.declaredFeatures[]": Entry(lambda index: f"A{name(index)}"),
    "status.conditions[]": Entry(lambda index: {"type": name(index), "status": "True"}),
    "status.volumesInUse[]": Entry(name),
}
NAMESPACE_ENTRIES: Final[Entries] = {**METADATA, "spec.finalizers[]": Entry(lambda index: f"a/{name(index)}")}
VOLUME_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.capacity{}": Entry(lambda _: ("storage", "1Gi"), most=1),
    "spec.accessModes[]": Entry(lambda _: "ReadWriteOnce"),
    "spec.mountOptions[]": Entry(name),
    **with_prefix("spec.nodeAffinity.required", node_selector()),
}
VOLUME_CLAIM_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.accessModes[]": Entry(lambda _: "ReadWriteOnce"),
    **with_prefix("spec.selector", LABEL_SELECTOR),
    "spec.resources.requests{}": Entry(lambda index: ("storage", "1Gi") if index == 0 else _amount(index)),
}
STORAGE_CLASS_ENTRIES: Final[Entries] = {
    **METADATA,
    "parameters{}": Entry(EMPTY.make, most=512),
    "mountOptions[]": Entry(name),
    "allowedTopologies[]": Entry(
        lambda index: {"matchLabelExpressions": [{"key": "a", "values": [name(index)]}]},
    ),
    "allowedTopologies[].matchLabelExpressions[]": Entry(lambda index: {"key": name(index), "values": ["a"]}),
    "allowedTopologies[].matchLabelExpressions[].values[]": Entry(name),
}
NODE_DRIVER_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.drivers[]": Entry(lambda index: {"name": name(index), "nodeID": "a", "topologyKeys": None}),
    "spec.drivers[].topologyKeys[]": Entry(name),
}
STORAGE_CAPACITY_ENTRIES: Final[Entries] = {**METADATA, **with_prefix("nodeTopology", LABEL_SELECTOR)}
STORAGE_DRIVER_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.tokenRequests[]": Entry(lambda index: {"audience": name(index)}),
}
ATTACHMENT_ENTRIES: Final[Entries] = {**METADATA, "status.attachmentMetadata{}": EMPTY}
BUDGET_ENTRIES: Final[Entries] = {
    **METADATA,
    **with_prefix("spec.selector", LABEL_SELECTOR),
    "status.disruptedPods{}": Entry(lambda index: (name(index), "2026-01-01T00:00:00Z"), most=2000),
    "status.conditions[]": Entry(lambda index: {**_CONDITION, "type": name(index)}),
}
POD_GROUP_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.schedulingConstraints.topology[]": Entry(lambda index: {"key": name(index)}, most=1),
    "spec.resourceClaims[]": Entry(lambda index: {"name": name(index), "resourceClaimName": "a"}, most=4),
    "status.conditions[]": Entry(lambda index: {**_CONDITION, "type": name(index)}),
    "status.resourceClaimStatuses[]": Entry(lambda index: {"name": name(index), "resourceClaimName": "a"}, most=4),
}
QUOTA_ENTRIES: Final[Entries] = {
    **METADATA,
    **with_prefix("spec.namespaceSelector", LABEL_SELECTOR),
    "spec.resources[]": Entry(lambda index: {"deviceClass": name(index), "limit": index}, most=16),
}
COSCHEDULING_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.minResources{}": Entry(_amount),
    "status.free[]": Entry(name),  # the definition that the tests install has no schema
}
_PODS: Final = {"namespace": "a", "podUID": "a"}
_DEVICES: Final = {"driver": "a", "pool": "a"}
HOLD_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.groups[]": Entry(lambda _: {"pods": dict(_PODS), "places": [{"node": "a"}]}, most=4096),
    "spec.departing[]": Entry(name, most=4096),
    "spec.groups[].pods.labels{}": Entry(EMPTY.make, most=16),
    "spec.groups[].pods.annotations{}": Entry(lambda _: ("kueue.x-k8s.io/workload", "a"), most=1),
    "spec.groups[].requests{}": Entry(_amount, most=64),
    "spec.groups[].hostPorts[]": Entry(lambda index: {"port": index + 1}, most=256),
    "spec.groups[].places[]": Entry(
        lambda _: {"node": "a"}, most=4096, holder=lambda _: {"pods": dict(_PODS), "places": []}
    ),
    "spec.groups[].places[].devices[]": Entry(lambda index: {**_DEVICES, "names": [name(index)]}, most=128),
    "spec.groups[].places[].devices[].names[]": Entry(name, most=128, holder=lambda _: dict(_DEVICES)),
    "spec.groups[].places[].devices[].consumedCapacity{}": Entry(
        lambda index: (name(index), "1"), most=32, holder=lambda _: {**_DEVICES, "names": ["a"], "shareID": "a"}
    ),
    "status.used[]": Entry(lambda index: index, most=65_536),
    "status.lost[]": Entry(lambda index: {"place": index, "message": ""}, most=65_536),
}
