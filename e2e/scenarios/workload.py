"""Measured workloads: a fleet, and pods with claims that all wait when the scheduler begins."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from e2e.fleet import hami
from e2e.fleet.fleets import demo_fleet, gpu_fleet, shared_gpu_fleet
from e2e.fleet.pci import PCIE_ROOT
from e2e.fleet.shape import Fleet
from e2e.objects import CLUSTER_SCOPED
from e2e.scenarios.examples import Expectation, read_examples

Manifest = dict[str, Any]

IMAGE = "registry.k8s.io/pause:3.10"
CPU_PER_GPU = 8  # pods with GPUs ask for their part of the node's processors and memory, as they usually do
MEMORY_GIB_PER_GPU = 64
CPU_PER_SHARE = 2
MEMORY_GIB_PER_SHARE = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods of one kind: what their claim asks for, what their container does, and how many there are."""

    devices: Manifest
    cpu: int
    memory_gib: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One workload.

    `pods` is how many there are, `placeable` how many of them fit when all is decided well; a run ends early when
    as many are bound. `manifests` makes them for a namespace and a scheduler's name; pods of several sizes have come
    in an order that the seed decides, neither all small nor all large ones first. `later` makes pods that come when
    all others are bound; they count among `pods`. `profile` are settings that Dovetail gets beside its own.
    """

    name: str
    about: str
    fleet: Callable[[], Fleet]
    pods: int
    placeable: int
    manifests: Callable[[str, str, int], list[Manifest]]
    later: Callable[[str, str, int], list[Manifest]] | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)


def scenarios() -> dict[str, Scenario]:
    """Return those that are compared unless others are named, by name, in the order of the table."""
    made = [examples(), one_gpu(), gpu_pairs(), mixed_sizes(), memory_shares()]
    return {scenario.name: scenario for scenario in made}


def large_scenarios() -> dict[str, Scenario]:
    """Return those that take minutes and run only when named: clusters of 500 and of 5,000 nodes."""
    made = {
        500: [one_gpu(nodes=500, pods=2000), gpu_pairs(nodes=500, pods=1000)],
        5000: [one_gpu(nodes=5000, pods=2000)],
    }
    named = [replace(each, name=f"{each.name}-{nodes}") for nodes, found in made.items() for each in found]
    return {scenario.name: scenario for scenario in named}


def examples() -> Scenario:
    """Make a scenario of the shipped examples: they fit all, but for those that are to wait."""
    read = read_examples()
    count = sum(example.pod_count for example in read)
    waiting = sum(
        number
        for example in read
        for metadata, _, number in example.pod_specs
        if (expected := Expectation.of(metadata)) and expected.state == "Pending"
    )

    def manifests(namespace: str, scheduler: str, _: int) -> list[Manifest]:
        return [
            moved(manifest, namespace, scheduler)
            for example in read
            for manifest in example.manifests
            if manifest["kind"] != "Namespace"
        ]

    return Scenario(
        name="examples",
        about="examples/ on one node of each kind",
        fleet=demo_fleet,
        pods=count,
        placeable=count - waiting,
        manifests=manifests,
    )


def one_gpu(*, nodes: int = 50, pods: int = 300) -> Scenario:
    """Make pods with one whole GPU each."""
    return Scenario(
        name="one-gpu",
        about=f"{pods} pods × 1 GPU, {nodes} nodes × 8",
        fleet=lambda: gpu_fleet(nodes),
        pods=pods,
        placeable=min(pods, nodes * 8),
        manifests=_workload({"one": gpu_pods(1, pods)}),
    )


def gpu_pairs(*, nodes: int = 50, pods: int = 150) -> Scenario:
    """Make pods with two GPUs of one PCIe root each."""
    pair = gpu_pods(2, pods, {"constraints": [{"matchAttribute": PCIE_ROOT}]})
    return Scenario(
        name="gpu-pairs",
        about=f"{pods} pods × 2 GPUs of one PCIe root, {nodes} nodes × 4 pairs",
        fleet=lambda: gpu_fleet(nodes),
        pods=pods,
        placeable=min(pods, nodes * 4),
        manifests=_workload({"pair": pair}),
    )


def mixed_sizes(*, nodes: int = 10, whole: int = 8) -> Scenario:
    """Make pods that take a whole node, and as many small ones as fill two other nodes and a bit."""
    small = 8 * (nodes - whole) - 6
    kinds = {"small": gpu_pods(1, small), "whole": gpu_pods(8, whole)}
    return Scenario(
        name="mixed-sizes",
        about=f"{small} pods × 1 and {whole} × 8 GPUs, {nodes} nodes × 8",
        fleet=lambda: gpu_fleet(nodes),
        pods=small + whole,
        placeable=small + whole,
        manifests=_workload(kinds),
    )


def memory_shares(*, nodes: int = 10) -> Scenario:
    """Make shares of 24Gi, 12Gi and 8Gi, one of each for every GPU of 46068Mi (44.99Gi)."""
    gpus = nodes * 4
    kinds = {f"{size}gi": _sharing_pods(f"{size}Gi", gpus) for size in (24, 12, 8)}
    return Scenario(
        name="memory-shares",
        about=f"{3 * gpus} shares of 24, 12 and 8Gi, {gpus} GPUs of 45Gi",
        fleet=lambda: shared_gpu_fleet(nodes),
        pods=3 * gpus,
        placeable=3 * gpus,
        manifests=_workload(kinds),
    )


def _workload(kinds: Mapping[str, Kind]) -> Callable[[str, str, int], list[Manifest]]:
    """Make one template for each kind and its pods."""

    def manifests(namespace: str, scheduler: str, seed: int) -> list[Manifest]:
        names = [name for name, kind in kinds.items() for _ in range(kind.count)]
        random.Random(seed).shuffle(names)  # noqa: S311 - an order, not a secret
        pods = [pod(f"p{index:04}", name, kinds[name]) for index, name in enumerate(names)]
        made = [template(name, kind) for name, kind in kinds.items()] + pods
        return [moved(manifest, namespace, scheduler) for manifest in made]

    return manifests


def template(name: str, kind: Kind) -> Manifest:
    """Make the template of a kind's claims."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": kind.devices}},
    }


def pod(prefix: str, template: str, kind: Kind) -> Manifest:
    """Make a pod of a kind, whose claim is made from the template."""
    requests = {"cpu": str(kind.cpu), "memory": f"{kind.memory_gib}Gi"}
    resources = {"requests": requests, "claims": [{"name": "devices"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{prefix}-{template}"},
        "spec": {
            "schedulerName": "",
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
            "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
        },
    }


def gpu_pods(gpus: int, count: int, devices: Manifest | None = None) -> Kind:
    """Make pods with so many whole GPUs, and their part of the node's processors and memory."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": gpus}}
    return Kind({"requests": [request], **(devices or {})}, CPU_PER_GPU * gpus, MEMORY_GIB_PER_GPU * gpus, count)


def _sharing_pods(memory: str, count: int) -> Kind:
    capacity = {"requests": {"memory": memory, "cores": "25"}}
    request = {"name": "share", "exactly": {"deviceClassName": hami.DRIVER, "capacity": capacity}}
    return Kind({"requests": [request]}, CPU_PER_SHARE, MEMORY_GIB_PER_SHARE, count)


def moved(manifest: Manifest, namespace: str, scheduler: str) -> Manifest:
    """Put an object into a namespace, or into one beside it if it has its own, and give its pods to a scheduler."""
    if manifest["kind"] == "PersistentVolume":  # one of its own each time: it is used up by its first claim
        return {**manifest, "metadata": {**manifest["metadata"], "name": f"{namespace}-{manifest['metadata']['name']}"}}
    if manifest["kind"] in CLUSTER_SCOPED:
        return manifest
    own = manifest["metadata"].get("namespace")
    metadata = {**manifest["metadata"], "namespace": f"{namespace}-{own}" if own else namespace}
    return {**manifest, "metadata": metadata, "spec": _rescheduled(manifest["spec"], scheduler)}


def _rescheduled(value: Any, scheduler: str) -> Any:
    match value:
        case dict():
            return {
                key: scheduler if key == "schedulerName" else _rescheduled(each, scheduler)
                for key, each in value.items()
            }
        case list():
            return [_rescheduled(each, scheduler) for each in value]
    return value
