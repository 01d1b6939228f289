"""A small valid object of each kind, which shapes start from."""

import copy
from typing import Any, Final

from e2e.hostile.extremes.pod_entries import container
from e2e.hostile.objects.kinds import API_VERSIONS, DRIVER, NAMESPACE, NAMESPACED, SCHEDULER, Manifest
from scheduler.change import Kind

NAME: Final = "mallory-0"
_SPECS: Final[dict[Kind, dict[str, Any]]] = {
    Kind.PODS: {
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [container(0)],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "resourceClaims": [{"name": "c", "resourceClaimName": "a"}],
        },
        "status": {"phase": "Pending"},
    },
    Kind.NODES: {"spec": {}, "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}},
    Kind.NAMESPACES: {"spec": {}, "status": {"phase": "Active"}},
    Kind.SLICES: {
        "spec": {
            "driver": DRIVER,
            "allNodes": True,
            "pool": {"name": "mallory", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        },
    },
    Kind.CLASSES: {"spec": {}},
    Kind.CLAIMS: {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "a"}}]}}},
    Kind.TAINT_RULES: {
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "a.b/c", "effect": "NoSchedule"}},
    },
    Kind.VOLUMES: {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "mallory",
            "csi": {"driver": DRIVER, "volumeHandle": "a"},
        },
        "status": {"phase": "Available"},
    },
    Kind.VOLUME_CLAIMS: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "mallory",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    },
    Kind.STORAGE_CLASSES: {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    Kind.NODE_DRIVERS: {"spec": {"drivers": [{"name": DRIVER, "nodeID": "a"}]}},
    Kind.STORAGE_CAPACITIES: {"storageClassName": "mallory", "nodeTopology": {}, "capacity": "1Gi"},
    Kind.STORAGE_DRIVERS: {"spec": {"storageCapacity": True}},
    Kind.ATTACHMENTS: {"spec": {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "a"}}},
    Kind.BUDGETS: {"spec": {"minAvailable": 1, "selector": {}}},
    Kind.POD_GROUPS: {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}},
    Kind.COSCHEDULING_GROUPS: {"spec": {"minMember": 1}},
    Kind.HOLDS: {
        "spec": {
            "owner": {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a"},
            "priority": 0,
            "deadline": "2099-01-01T00:00:00Z",
            "groups": [{"pods": {"namespace": "a", "podUID": "a"}, "places": [{"node": "a"}]}],
        },
    },
    Kind.QUOTAS: {"spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "resources": [{"deviceClass": "a"}]}},
}


def base(kind: Kind, name: str = NAME) -> Manifest:
    """Make the small object."""
    version, title = API_VERSIONS[kind]
    metadata = {"name": name, **({"namespace": NAMESPACE} if kind in NAMESPACED else {})}
    return {"apiVersion": version, "kind": title, "metadata": metadata, **copy.deepcopy(_SPECS[kind])}
