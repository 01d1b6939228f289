"""The fleet of `admissions`, the queues for it, and Workloads of six shapes in a random order."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from e2e import objects
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import hami, nvidia
from e2e.fleet.fleets import together
from e2e.fleet.shape import Fleet, Manifest

NAMESPACE: Final = "load"
GPU, MIG, SHARED = "gpu.nvidia.com", "mig.nvidia.com", hami.DRIVER
CLASSES: Final = {GPU: "gpus", MIG: "partitions", SHARED: "shares"}
NULL, PLACEMENT = "null", "placement"
"""The AdmissionChecks; the first is answered by the tool."""
CONTROLLERS: Final = {NULL: "dovetail.dev/null", PLACEMENT: "dovetail.dev/placement"}
CLIQUE_NODES: Final = 4
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
_TOLERATION: Final = {"key": "nvidia.com/nvlink-domain", "operator": "Exists"}
_MORE_QUOTA: Final = 1000
"""Of cpu, memory and shares, whose count says nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """Workloads in the order of their creation: the manifests of each, and how many pods it has."""

    workloads: tuple[tuple[str, tuple[Manifest, ...], int], ...]
    unplaceable: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names of those that fit in an empty fleet."""
        return frozenset(name for name, _, _ in self.workloads) - self.unplaceable

    async def create(self, session: aiohttp.ClientSession, rate: float) -> None:
        """Create them, some at a time, at most so many a second (0: no limit)."""
        slots = asyncio.Semaphore(8)

        async def one(manifests: tuple[Manifest, ...]) -> None:
            async with slots:
                await objects.create(session, manifests)

        async with asyncio.TaskGroup() as group:
            for _, manifests, _ in self.workloads:
                group.create_task(one(manifests))
                await asyncio.sleep(1 / rate if rate else 0)


def fleet_of(nodes: int) -> Fleet:
    """Make whole GPUs on six of ten nodes, NVLink cliques of four on two, partitions on one, shares on one."""
    made = []
    for index in range(nodes):
        match index % 10:
            case 0:
                made.append(nvidia.mig_node(f"mig-{index:04}"))
            case 5:
                made.append(hami.gpu_node(f"shared-{index:04}", gpus=8))
            case 3 | 7:
                clique = sum(each % 10 in (3, 7) for each in range(index)) // CLIQUE_NODES
                made.append(nvidia.nvlink_node(f"clique-{index:04}", f"c{clique}"))
            case _:
                made.append(nvidia.gpu_node(f"gpu-{index:04}"))
    return together(*made)


def load_of(count: int, chance: random.Random, run_seconds: int, unplaceable: int) -> Load:
    """Make Workloads of the six shapes, in a random order; further ones want nine GPUs of one node."""
    shapes = (_one_pod, _four_by_eight, _two_pod_sets, _partition, _share, _clique)
    made = []
    for index in range(count):
        shape = shapes[index % len(shapes)]
        name = f"w{index:04}-{shape.__name__.strip('_').replace('_', '-')}"
        made.append((name, *shape(name, run_seconds)))
    chance.shuffle(made)
    never = frozenset(f"never-{index:03}" for index in range(unplaceable))
    for name in sorted(never):
        made.insert(chance.randrange(max(1, len(made) // 4)), (name, *_never(name, run_seconds)))
    return Load(tuple(made), never)


def queues(plane: ControlPlane, load: Load, arm: str) -> Iterator[Manifest]:
    """Make the namespace, the claim templates, a queue with quota for all devices of each class, and the check."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for name, requests in _TEMPLATES.items():
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }
    yield {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    devices: Counter[str] = Counter()
    for published in plane.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]:
        for each in published["spec"].get("devices", []):
            kind = each.get("attributes", {}).get("type", {}).get("string", "")
            devices[{"gpu": GPU, "mig": MIG}.get(kind, SHARED)] += 1
    devices[GPU] += 9 * len(load.unplaceable)
    quota = {"cpu": _MORE_QUOTA * 100, "memory": "1Pi", CLASSES[SHARED]: devices[SHARED] * _MORE_QUOTA}
    quota |= {CLASSES[name]: devices[name] for name in (GPU, MIG)}
    resources = [{"name": name, "nominalQuota": str(amount)} for name, amount in quota.items()]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": list(quota), "flavors": [{"name": "default", "resources": resources}]}],
    }
    check = {"null": NULL, "dovetail": PLACEMENT}.get(arm)
    if check:
        yield {
            "apiVersion": _KUEUE,
            "kind": "AdmissionCheck",
            "metadata": {"name": check},
            "spec": {"controllerName": CONTROLLERS[check]},
        }
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
    yield {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": spec}
    yield {
        "apiVersion": _KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "all", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "all"},
    }


def _request(name: str, device_class: str, **more: Any) -> Manifest:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


_TEMPLATES: Final = {
    "one-gpu": [_request("gpu", GPU)],
    "four-gpus": [_request("gpus", GPU, count=4)],
    "eight-gpus": [_request("gpus", GPU, count=8)],
    "nine-gpus": [_request("gpus", GPU, count=9)],
    "partition": [
        _request(
            "partition",
            MIG,
            selectors=[{"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '3g.20gb'"}}],
        )
    ],
    "share": [_request("share", SHARED, capacity={"requests": {"memory": "10Gi", "cores": "25"}})],
}


def _one_pod(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    return (_job(name, 1, "one-gpu", run_seconds),), 1


def _four_by_eight(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    return (_job(name, 4, "eight-gpus", run_seconds),), 4


def _two_pod_sets(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    """Make a group of three pods of two kinds: a Job has one podset only."""
    labels = {_QUEUE: "all", "kueue.x-k8s.io/pod-group-name": name}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": "3", **_running(run_seconds)}
    pods = tuple(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": _pod("one-gpu" if index == 0 else "four-gpus"),
        }
        for index in range(3)
    )
    return pods, 3


def _partition(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    return (_job(name, 1, "partition", run_seconds),), 1


def _share(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    return (_job(name, 1, "share", run_seconds),), 1


def _clique(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    job = _job(name, 8, "four-gpus", run_seconds, tolerations=[_TOLERATION])
    metadata = job["spec"]["template"]["metadata"]
    metadata["labels"] = {"dovetail.dev/gang": name}
    metadata["annotations"] |= {
        "dovetail.dev/gang-minimum": "8",
        "dovetail.dev/gang-topology": "label:nvidia.com/gpu.clique",
    }
    return (job,), 8


def _never(name: str, run_seconds: int) -> tuple[tuple[Manifest, ...], int]:
    return (_job(name, 1, "nine-gpus", run_seconds),), 1


def _running(seconds: int) -> dict[str, str]:
    return {"dovetail.dev/run-seconds": str(seconds)}


def _pod(template: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "devices"}]},
    }
    return {
        "schedulerName": "dovetail",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
        **spec,
    }


def _job(name: str, pods: int, template: str, run_seconds: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {_QUEUE: "all"}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "suspend": True,
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": _running(run_seconds)},
                "spec": _pod(template, **spec),
            },
        },
    }
