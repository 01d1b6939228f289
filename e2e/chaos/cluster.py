"""The cluster that everything happens in: its hardware, classes, budgets, and how Dovetail is configured on it."""

import json
import time
from collections.abc import Collection
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Final

import yaml

from e2e import objects
from e2e.audit.quotas import NAME_LABEL
from e2e.audit.reading import Finding, Json
from e2e.chaos.for_kubelets import NO_IMAGE, for_kubelets
from e2e.chaos.judge import BUDGET
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import REPAIRS
from e2e.fleet import hami, nvidia, nvidia_partitions
from e2e.fleet.shape import Fleet
from e2e.hostile.objects import kinds

NAMESPACES: Final = tuple(f"team-{index}" for index in range(10))
HOSTILE_NAMESPACE: Final = kinds.NAMESPACE
WORN_NAMESPACE: Final = "worn"
"""Of the pods that repairs move (`decay`); no quota counts them."""
TIGHT_NAMESPACE: Final = NAMESPACES[-1]
"""Its ResourceQuota admits only a few pods and claims for a while."""
SCHEDULER: Final = "dovetail"
PEER: Final = "default-scheduler"
PEER_PREFIX: Final = "peer-"
POOL: Final = "pool"
MOST_EVICTIONS: Final = 12
LEAST: Final = {"none": 99, "some": 2}
"""Pods that each PodDisruptionBudget keeps, by its name."""
MERGE: Final = "application/merge-patch+json"
TAINTS: Final = ({"key": "chaos", "effect": "NoSchedule"},)
"""Of a device that its driver taints."""
DEVICE_QUOTAS: Final = "/apis/dovetail.dev/v1alpha1/devicequotas"
DEVICE_QUOTA_COUNT: Final = 4
"""Each of these has two of the namespaces."""
QUOTA_NAMESPACES: Final = tuple(
    frozenset(NAMESPACES[2 * number : 2 * number + 2]) for number in range(DEVICE_QUOTA_COUNT)
)
QUOTA_CLASS: Final = "quota-gpus"
"""All devices of NVIDIA's driver, whatever class a claim names."""
RESOURCE: Final = "/apis/resource.k8s.io/v1"
GPU_NODES: Final = tuple(f"gpu-{index}" for index in range(4))
"""The nodes with whole GPUs that Dovetail serves."""
WORN_NODES: Final = tuple(f"worn-{index}" for index in range(3))
"""Nodes for the pods of `WORN_NAMESPACE` alone."""
WORN_TAINT: Final = "worn"
"""The key of their taint and of their label."""
MAINTENANCE: Final = "maintenance"
"""The key of the taint that announces the maintenance of a node."""
FORCED: Final = 0.1
"""The share of deletions without any grace: real clusters have them too, now and then."""
_BUSY: Final = frozenset({429, 500, 503, 504})
_TRIES: Final = 40
_PAUSE_SECONDS: Final = 0.25
_LONGEST_REMOVAL_SECONDS: Final = 240.0
"""Pods on nodes that do not exist are collected after a minute or two."""
_CLASS_QUOTA: Final = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
WIDE_QUOTA: Final = {"count/pods": "200", "count/resourceclaims.resource.k8s.io": "200", _CLASS_QUOTA: "200"}
TIGHT_QUOTA: Final = {"count/pods": "6", "count/resourceclaims.resource.k8s.io": "3", _CLASS_QUOTA: "4"}

_CONFIGURATION: Final[Json] = {
    "apiVersion": "config.dovetail.dev/v1alpha1",
    "kind": "DovetailConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "preemption": {
                "enabled": True,
                "devices": True,
                "minimumRunSeconds": 0,
                "maxEvictionsPerMinute": MOST_EVICTIONS,
            },
        }
    ],
    "devices": {"owned": {"nodeSelector": {"matchLabels": {POOL: "ours"}}}},
    "leaderElection": {"leaseDurationSeconds": 6, "renewDeadlineSeconds": 4, "retryPeriodSeconds": 0.5},
    "queue": {"starvationSeconds": 20, "reportMissingMembersSeconds": 3},
    "commit": {"requestTimeoutSeconds": 1.5},
    "repair": {**REPAIRS, "planningSeconds": 5, "successorSeconds": 20, "maintenanceTaints": [MAINTENANCE]},
}

REQUESTS: Final[dict[str, Json]] = {
    "one": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]},
    "two": {
        "requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    },
    "four": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}]},
    "three": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 3}}]},
    "share": {
        "requests": [
            {
                "name": "s",
                "exactly": {
                    "deviceClassName": hami.DRIVER,
                    "capacity": {"requests": {"memory": "12Gi", "cores": "25"}},
                },
            }
        ]
    },
    "mig": {
        "requests": [
            {
                "name": "m",
                "exactly": {
                    "deviceClassName": "mig.nvidia.com",
                    "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '2g.10gb'"}}],
                },
            }
        ]
    },
    "first": {
        "requests": [
            {
                "name": "f",
                "firstAvailable": [
                    {"name": "many", "deviceClassName": "gpu.nvidia.com", "count": 3},
                    {"name": "few", "deviceClassName": "gpu.nvidia.com", "count": 1},
                ],
            }
        ]
    },
}
"""What claims ask for, by the name of their template."""


class Cluster:
    """
    The cluster, and patient requests to it: its server is stopped now and then.

    `real` are the nodes that have kubelets of their own: these register them, and drivers publish their devices.
    """

    def __init__(self, plane: ControlPlane, real: Collection[str] = ()) -> None:
        self.plane = plane
        self.fleet = _fleet()
        self.real = frozenset(real)

    def build(self) -> None:
        """Create everything but work and real nodes."""
        written = self._written()
        for each in (*written.nodes, *written.classes, *written.slices, *_furniture()):
            if self.create(each) is None:
                raise RuntimeError(f"the API server refused {each['kind']} {each['metadata']['name']}")

    def create(self, manifest: Json) -> Json | None:
        """Create an object; None where the server refuses."""
        if self.real:
            manifest = for_kubelets(manifest)
        made: Json | None = self.request("POST", objects.collection_path(manifest), manifest)
        return made

    def request(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """Send a request, again while the server is away or busy; None where it refuses."""
        for _ in range(_TRIES):
            try:
                return self.plane.request(method, path, body, content=content)
            except RequestError as error:
                if error.status not in _BUSY:
                    return None
            except OSError:
                pass
            time.sleep(_PAUSE_SECONDS)
        return None

    def listed(self, path: str) -> list[Json]:
        """List objects; empty where no API server answers."""
        found = self.request("GET", path)
        return list(found["items"]) if found else []

    def pods(self) -> list[Json]:
        """List the pods of the run, without those of the hostile tenant."""
        own = {*NAMESPACES, WORN_NAMESPACE}
        return [each for each in self.listed("/api/v1/pods") if each["metadata"]["namespace"] in own]

    def delete_pod(self, pod: Json, *, at_once: bool) -> None:
        """Delete a pod, with its grace or without; one that a real node may have keeps its grace."""
        node = pod["spec"].get("nodeName")
        is_stand_in = not self.real or (node and node not in self.real)  # it may be bound by now where it was not
        self.request("DELETE", pod_path(pod), {"gracePeriodSeconds": 0} if at_once and is_stand_in else None)

    def forget_pod(self, pod: Json) -> None:
        """Delete a pod at once, wherever it is."""
        self.request("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})

    def delete_slices(self, node: str) -> None:
        """Delete the slices of a node, of every driver."""
        for each in self.listed(f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName={node}"):
            self.request("DELETE", f"{RESOURCE}/resourceslices/{each['metadata']['name']}")

    def delete_at_once(self, path: str) -> None:
        """Delete an object without grace; with real nodes with it, since they may run it."""
        self.request("DELETE", path, None if self.real else {"gracePeriodSeconds": 0})

    def limit(self, quota: Json) -> None:
        """Change the ResourceQuota of the namespace whose quota is tight at times."""
        path = f"/api/v1/namespaces/{TIGHT_NAMESPACE}/resourcequotas/team"
        self.request("PATCH", path, {"spec": {"hard": quota}}, content=MERGE)

    def give_quota(self, number: int, limit: int | None) -> None:
        """Make the DeviceQuota of two namespaces, or change its limit; None deletes it."""
        name = f"quota-{number}"
        if limit is None:
            self.request("DELETE", f"{DEVICE_QUOTAS}/{name}")
            return
        own = sorted(QUOTA_NAMESPACES[number])
        resources = [{"deviceClass": QUOTA_CLASS, "limit": limit}]
        spec = {
            "namespaceSelector": {"matchExpressions": [{"key": NAME_LABEL, "operator": "In", "values": own}]},
            "resources": resources,
        }
        body = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DeviceQuota", "metadata": {"name": name}, "spec": spec}
        path = f"{DEVICE_QUOTAS}/{name}"
        if self.request("PATCH", path, {"spec": {"resources": resources}}, content=MERGE) is None:
            self.request("POST", DEVICE_QUOTAS, body)

    @property
    def own_nodes(self) -> list[str]:
        """The nodes with whole GPUs that Dovetail serves."""
        return list(GPU_NODES)

    def republish(self, manifest: Json, *, tainted: Collection[str] = ()) -> None:
        """Publish a slice's pool anew, in a newer generation, with some of its devices tainted."""
        generation = int(time.time())
        for each in self.fleet.slices:
            if each["spec"]["pool"]["name"] == manifest["spec"]["pool"]["name"]:
                self._publish(each, generation, tainted)

    def _publish(self, manifest: Json, generation: int, tainted: Collection[str]) -> None:
        path = f"{RESOURCE}/resourceslices/{manifest['metadata']['name']}"
        known = self.request("GET", path)
        renewed = json.loads(json.dumps(manifest))
        renewed["spec"]["pool"]["generation"] = generation
        for device in renewed["spec"].get("devices") or ():
            if device["name"] in tainted:
                device["taints"] = list(TAINTS)
        if known is None:
            self.create(renewed)
        else:
            renewed["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            self.request("PUT", path, renewed)

    def restore(self) -> None:
        """Put back what was taken away, and undo what was done to nodes."""
        written = self._written()
        for each in written.nodes:
            self.create(each)
        for each in written.slices:
            self.republish(each)
        for name in self.own_nodes:
            body = {"spec": {"unschedulable": None}}
            self.request("PATCH", f"/api/v1/nodes/{name}", body, content=MERGE)
        self.restore_worn()
        self.limit(WIDE_QUOTA)
        for number in range(DEVICE_QUOTA_COUNT):
            self.give_quota(number, None)

    def restore_worn(self) -> None:
        """Undo what was done to the nodes of `WORN_NODES` and to their devices."""
        for name in WORN_NODES:
            spec = {"unschedulable": None, "taints": [_worn()]}
            self.request("PATCH", f"/api/v1/nodes/{name}", {"spec": spec}, content=MERGE)
        for each in self.fleet.slices:
            if each["spec"].get("nodeName") in WORN_NODES:
                self.republish(each)

    def keep_running(self, namespace: str, template: str, *, labels: Json) -> None:
        """Make a ReplicaSet of one pod: its pods may be moved, for its controller makes another one."""
        resources = {"requests": {"cpu": "1"}, "claims": [{"name": "devices"}]}
        spec = {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": NO_IMAGE, "resources": resources}],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
        }
        self.replicate(f"kept-{template}", 1, spec, namespace=namespace, labels=labels)

    def replicate(self, name: str, count: int, spec: Json, *, namespace: str, labels: Json) -> None:
        """Make a ReplicaSet of so many pods."""
        labels = {"app": name, **labels}
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )

    def keep_no_more(self, *namespaces: str) -> None:
        """Remove the ReplicaSets; their pods go with them, or are deleted when the cluster is emptied."""
        for each in self.listed("/apis/apps/v1/replicasets"):
            meta = each["metadata"]
            path = f"/apis/apps/v1/namespaces/{meta['namespace']}/replicasets/{meta['name']}"
            if meta["namespace"] in namespaces:
                self.request("DELETE", path, {"propagationPolicy": "Background"})

    def _written(self) -> Fleet:
        """Return the part of the fleet that no kubelet and no driver writes."""
        return Fleet(
            nodes=tuple(each for each in self.fleet.nodes if each["metadata"]["name"] not in self.real),
            classes=self.fleet.classes,
            slices=tuple(each for each in self.fleet.slices if each["spec"].get("nodeName") not in self.real),
        )

    def remove_namespace(self, name: str) -> list[Finding]:
        """Delete a namespace with all that is in it, and wait until it is gone."""
        path, end = f"/api/v1/namespaces/{name}", time.monotonic() + _LONGEST_REMOVAL_SECONDS
        self.request("DELETE", path)
        while self.request("GET", path) is not None:
            if time.monotonic() > end:
                return [Finding("left", name, f"the namespace is not gone after {_LONGEST_REMOVAL_SECONDS:.0f} s")]
            time.sleep(_PAUSE_SECONDS)
        return []


def pod_path(pod: Json) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def claim_path(claim: Json) -> str:
    """Return the path of a ResourceClaim."""
    return f"{RESOURCE}/namespaces/{claim['metadata']['namespace']}/resourceclaims/{claim['metadata']['name']}"


def configure(folder: Path) -> Path:
    """Write Dovetail's configuration."""
    path = folder / "dovetail.yaml"
    path.write_text(yaml.safe_dump(_CONFIGURATION))
    return path


def _fleet() -> Fleet:
    ours = [nvidia.gpu_node(name) for name in GPU_NODES]
    ours += [hami.gpu_node("shared-0", gpus=2), nvidia_partitions.partitionable_node("mig-0", gpus=2)]
    ours += (worn := [nvidia.gpu_node(name, gpus=4) for name in WORN_NODES])
    for node in reduce(add, worn).nodes:
        node["metadata"].setdefault("labels", {})[WORN_TAINT] = "true"
        node.setdefault("spec", {})["taints"] = [_worn()]
    peers = nvidia.gpu_node(f"{PEER_PREFIX}0")
    fleet = reduce(add, ours)
    for node in fleet.nodes:
        node["metadata"].setdefault("labels", {})[POOL] = "ours"
    for node in peers.nodes:
        node["metadata"].setdefault("labels", {})[POOL] = "peer"
        node.setdefault("spec", {})["taints"] = [{"key": POOL, "value": "peer", "effect": "NoSchedule"}]
    return fleet + peers


def _furniture() -> list[Json]:
    return [
        *(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            for name, value in (("high", 1000), ("middle", 500))
        ),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": QUOTA_CLASS},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{nvidia.DRIVER}'"}}]},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        *(each for name in NAMESPACES for each in _team(name)),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORN_NAMESPACE}},
        *(_template(WORN_NAMESPACE, name) for name in ("one", "three")),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOSTILE_NAMESPACE}},
        _quota(HOSTILE_NAMESPACE, {"count/pods": "20", _CLASS_QUOTA: "2"}),
    ]


def _team(namespace: str) -> list[Json]:
    """Make a namespace, and what pods in it need."""
    meta = {"namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *(_template(namespace, name) for name in REQUESTS),
        *(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, **meta},
                "spec": {"minAvailable": least, "selector": {"matchLabels": {BUDGET: name}}},
            }
            for name, least in LEAST.items()
        ),
        _quota(namespace, WIDE_QUOTA),
    ]


def _template(namespace: str, name: str) -> Json:
    """Make the ResourceClaimTemplate for what `REQUESTS` has under a name."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": REQUESTS[name]}},
    }


def _worn() -> Json:
    return {"key": WORN_TAINT, "effect": "NoSchedule"}


def maintained() -> Json:
    """Return what the spec of one of `WORN_NODES` is changed to when its maintenance is announced."""
    return {"taints": [_worn(), {"key": MAINTENANCE, "effect": "NoSchedule"}]}


def _quota(namespace: str, hard: Json) -> Json:
    meta = {"name": "team", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def disk(index: int) -> Json:
    """Make a PersistentVolume on one of the nodes with whole GPUs."""
    node = GPU_NODES[index % len(GPU_NODES)]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{index}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": f"/disk-{index}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }
