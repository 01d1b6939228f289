"""
Workloads where deciding pod by pod strands devices: all pods fit, but only if they are decided together.

Each comes with the order in which first fit does worst: small pods before large ones, pods with a choice before those
without.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from e2e.controlplane import versions
from e2e.fleet import dranet, nvidia, nvidia_partitions
from e2e.fleet.fleets import gpu_fleet, together
from e2e.fleet.pci import PCIE_ROOT
from e2e.fleet.shape import Fleet, device_class
from e2e.scenarios.workload import Kind, Manifest, Scenario, gpu_pods, moved, pod, template

RDMA = device_class("rdma.dra.net", "device.driver == 'dra.net' && device.attributes['dra.net'].rdma")
A100 = nvidia.A100_40GB.product
H100 = nvidia.H100.product
CLIQUE = "nvidia.com/gpu.clique"
IMPORTANT = {"priorityClassName": "system-cluster-critical"}  # a class that every cluster has
AT_ONCE = {"terminationGracePeriodSeconds": 0}  # evicted pods are gone at once: their shutdown is not what is measured


class Wave(NamedTuple):
    """Pods that came after each other; `kind` names what they ask for."""

    kind: str
    pods: int


def joint_scenarios() -> dict[str, Scenario]:
    """Return them by name, in the order of the table."""
    made = [mig_mix(), gpu_with_card(), first_available(), halves_and_whole(), large_gangs(), preemption()]
    return {scenario.name: scenario for scenario in made}


def mig_mix(*, nodes: int = 2) -> Scenario:
    """Make MIG devices of 1g, 2g and 4g, one of each for every GPU, the small ones first."""
    gpus = nodes * 8
    kinds = {name.partition(".")[0]: _mig(name) for name in ("1g.5gb", "2g.10gb", "4g.20gb")}
    return Scenario(
        name="mig-mix",
        about=f"{gpus} × 1g, 2g and 4g in turn, {gpus} GPUs to be cut",
        fleet=lambda: together(*(nvidia_partitions.partitionable_node(f"mig-{index}") for index in range(nodes))),
        pods=3 * gpus,
        placeable=3 * gpus,
        manifests=in_waves(kinds, [Wave(name, gpus) for name in kinds]),
    )


def gpu_with_card(*, nodes: int = 5) -> Scenario:
    """Make pods with a GPU beside a network card of the same PCIe root, after as many that need any GPU."""
    count = 4 * nodes
    pair = {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
            {"name": "card", "exactly": {"deviceClassName": RDMA["metadata"]["name"]}},
        ],
        "constraints": [{"matchAttribute": PCIE_ROOT}],
    }
    plain = gpu_pods(1, count)
    kinds = {"gpu": plain, "pair": Kind(pair, plain.cpu, plain.memory_gib, count)}
    cards = (dranet.rdma_nics(f"gpu-{index:04}", count=4, per_root=1) for index in range(nodes))
    return Scenario(
        name="gpu-and-nic",
        about=f"{count} × 1 GPU, then {count} × GPU and card of one PCIe root, {nodes} nodes × 8 GPUs, 4 cards",
        fleet=lambda: together(gpu_fleet(nodes), *cards, Fleet(classes=(RDMA,))),
        pods=2 * count,
        placeable=2 * count,
        manifests=in_waves(kinds, [Wave("gpu", count), Wave("pair", count)]),
    )


def first_available(*, nodes: int = 2) -> Scenario:
    """Make pods that take an H100 or else an A100, and after them pods that need an H100."""
    count = 8 * nodes
    choice = [{"name": name, **_model(product)} for name, product in (("h100", H100), ("a100", A100))]
    plain = gpu_pods(1, count)
    kinds = {
        "either": Kind({"requests": [{"name": "gpu", "firstAvailable": choice}]}, plain.cpu, plain.memory_gib, count),
        "h100": Kind({"requests": [{"name": "gpu", "exactly": _model(H100)}]}, plain.cpu, plain.memory_gib, count),
    }
    return Scenario(
        name="first-available",
        about=f"{count} × H100 or else A100, then {count} × H100, {nodes} nodes × 8 of each",
        fleet=lambda: together(
            gpu_fleet(nodes), *(nvidia.gpu_node(f"old-{index}", model=nvidia.A100_40GB) for index in range(nodes))
        ),
        pods=2 * count,
        placeable=2 * count,
        manifests=in_waves(kinds, [Wave("either", count), Wave("h100", count)]),
    )


def halves_and_whole(*, gangs: int = 4) -> Scenario:
    """Make gangs of two pods with half a GPU and one with a whole one, on nodes with one GPU each."""
    whole = "device.attributes['gpu.nvidia.com'].type == 'gpu'"
    kinds = {"half": _mig("3g.20gb"), "whole": _selected("gpu.nvidia.com", whole)}
    members = [(f"gang-{number}", kind) for number in range(gangs) for kind in ("half", "half", "whole")]
    return Scenario(
        name="halves-and-whole",
        about=f"{gangs} gangs of 2 × 1/2 GPU and 1 × 1 GPU, {2 * gangs} nodes × 1 GPU to be cut",
        fleet=lambda: together(
            *(nvidia_partitions.partitionable_node(f"cut-{index}", gpus=1) for index in range(2 * gangs))
        ),
        pods=3 * gangs,
        placeable=3 * gangs,
        manifests=in_gangs(kinds, members, {}),
    )


def large_gangs(*, domains: int = 4, nodes: int = 18, size: int = 16) -> Scenario:
    """
    Make two gangs of 16 × 8 GPUs, each to be inside one NVLink domain, after pods that need one GPU.

    Half of the domains have three nodes that lack a GPU, so that no gang fits there, the others two.
    """
    small = 40
    gangs = [f"gang-{number}" for number in range(domains // 2)]
    members = [("", "one")] * small + [(gang, "all") for gang in gangs for _ in range(size)]
    kinds = {"one": gpu_pods(1, small), "all": gpu_pods(8, size)}

    def fleet() -> Fleet:
        made = []
        for domain in range(domains):
            broken = 3 if domain < domains // 2 else 2
            for index in range(nodes):
                one = nvidia.gpu_node(
                    f"nvl-{domain}-{index:02}", gpus=7 if index % 6 < 1 and index // 6 < broken else 8
                )
                one.nodes[0]["metadata"]["labels"][CLIQUE] = f"clique-{domain}"
                made.append(one)
        return together(*made)

    return Scenario(
        name="nvlink-gangs",
        about=f"{small} × 1 GPU, then {len(gangs)} gangs of {size} × 8, {domains} NVLink domains of {nodes} nodes",
        fleet=fleet,
        pods=len(members),
        placeable=len(members),
        manifests=in_gangs(kinds, members, dict.fromkeys(gangs, CLIQUE)),
    )


def preemption(*, nodes: int = 2) -> Scenario:
    """Make pods of one GPU that fill everything, and when they run, more important ones that need a pair of GPUs."""
    low, high = 8 * nodes, 2 * nodes
    pair = gpu_pods(2, high, {"constraints": [{"matchAttribute": PCIE_ROOT}]})
    kinds = {"low": gpu_pods(1, low), "high": pair}

    def later(namespace: str, scheduler: str, _: int) -> list[Manifest]:
        made = [pod(f"high-{index}", "high", pair) for index in range(high)]
        return [moved(_with(each, **IMPORTANT, **AT_ONCE), namespace, scheduler) for each in made]

    return Scenario(
        name="preemption",
        about=f"{low} × 1 GPU run everywhere, then {high} important × 2 GPUs of one PCIe root",
        fleet=lambda: gpu_fleet(nodes),
        pods=low + high,
        placeable=low + high,
        manifests=in_waves(kinds, [Wave("low", low)], **AT_ONCE),
        later=later,
        profile={"preemption": {"devices": True, "minimumRunSeconds": 0}},
    )


def _mig(profile: str) -> Kind:
    return _selected("mig.nvidia.com", f"device.attributes['{nvidia.DRIVER}'].profile == '{profile}'")


def _selected(device_class_name: str, expression: str) -> Kind:
    exactly = {"deviceClassName": device_class_name, "selectors": [{"cel": {"expression": expression}}]}
    return Kind({"requests": [{"name": "mig", "exactly": exactly}]}, 2, 8, 0)


def _model(product: str) -> Manifest:
    expression = f"device.attributes['{nvidia.DRIVER}'].productName == '{product}'"
    return {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}


def in_waves(kinds: Mapping[str, Kind], waves: list[Wave], **fields: Any) -> Callable[[str, str, int], list[Manifest]]:
    """Make one template for each kind, and pods wave after wave; the order is the scenario, so no seed changes it."""

    def manifests(namespace: str, scheduler: str, _: int) -> list[Manifest]:
        wanted = [wave.kind for wave in waves for _ in range(wave.pods)]
        pods = [_with(pod(f"p{index:04}", name, kinds[name]), **fields) for index, name in enumerate(wanted)]
        made = [template(name, kind) for name, kind in kinds.items()] + pods
        return [moved(manifest, namespace, scheduler) for manifest in made]

    return manifests


def in_gangs(
    kinds: Mapping[str, Kind],
    members: Sequence[tuple[str, str]],
    topology: Mapping[str, str],
    prefix: str = "p",
    **fields: Any,
) -> Callable[[str, str, int], list[Manifest]]:
    """Make pods of (gang or none, kind) and the PodGroups that they name, each inside one value of a node label."""

    def manifests(namespace: str, scheduler: str, _: int) -> list[Manifest]:
        sizes = Counter(gang for gang, _ in members if gang)
        same = {name: value for name, value in fields.items() if name == "priority"}
        groups = [_pod_group(gang, size, topology.get(gang, ""), **same) for gang, size in sizes.items()]
        pods = [
            _with(
                pod(f"{prefix}{index:04}", kind, kinds[kind]),
                **({"schedulingGroup": {"podGroupName": gang}} if gang else {}),
                **fields,
            )
            for index, (gang, kind) in enumerate(members)
        ]
        made = [template(name, kind) for name, kind in kinds.items()] + groups + pods
        return [moved(manifest, namespace, scheduler) for manifest in made]

    return manifests


def _pod_group(name: str, size: int, topology: str, **more: Any) -> Manifest:
    spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": size}}, **more}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {"apiVersion": versions.pod_groups(), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def _with(manifest: Manifest, **fields: Any) -> Manifest:
    """Add fields to a pod's spec."""
    return {**manifest, "spec": {**manifest["spec"], **fields}}
