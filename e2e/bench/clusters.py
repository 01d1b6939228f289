"""What is there: fleets read as the scheduler reads them, and claims that hold a part of their devices already."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import msgspec

from e2e.fleet import dranet, hami, nvidia, nvidia_partitions
from e2e.fleet.shape import Fleet, Machine, Manifest
from scheduler.kube.decode.nodes import decode_node
from scheduler.kube.decode.slices import decode_class, decode_slice
from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    ConsumerReference,
    DeviceId,
    DeviceResult,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodClaim,
    PodId,
    Request,
    Snapshot,
    SubRequest,
)

H200 = nvidia.Model(
    "NVIDIA H200",
    "Hopper",
    "9.0.0",
    "143771Mi",
    Machine(instance_type="hgx-h200-8", cpu=192, memory_gib=2048, disk_gib=7168),
)
CLIQUE_LABEL = "nvidia.com/gpu.clique"
RDMA_CLASS: Manifest = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "rdma"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'dra.net' && device.attributes['dra.net'].rdma"}}]},
}
NAMESPACE = "bench"
CPU_PER_GPU = 8000
MEMORY_PER_GPU = 64 * 2**30


@dataclass(frozen=True, slots=True)
class Share:
    """A kind of node and how many of a hundred nodes are of it."""

    percent: int
    make: Callable[[str], Fleet]


def h100(name: str) -> Fleet:
    """Make a node with eight H100, four PCIe roots, and as many network cards as GPUs."""
    return nvidia.gpu_node(name) + dranet.rdma_nics(name) + Fleet(classes=(RDMA_CLASS,))


def h100_few_cards(name: str) -> Fleet:
    """Make a node with eight H100 and one network card behind each of the four PCIe roots."""
    return nvidia.gpu_node(name) + dranet.rdma_nics(name, count=4, per_root=1) + Fleet(classes=(RDMA_CLASS,))


def h100_alone(name: str) -> Fleet:
    """Make a node with eight H100."""
    return nvidia.gpu_node(name)


def h200(name: str) -> Fleet:
    """Make a node with eight H200."""
    return nvidia.gpu_node(name, model=H200)


def a100(name: str) -> Fleet:
    """Make a node with eight A100."""
    return nvidia.gpu_node(name, model=nvidia.A100_40GB)


def l40s(name: str) -> Fleet:
    """Make a node with four L40S."""
    return nvidia.gpu_node(name, model=nvidia.L40S, gpus=4, gpus_per_root=1)


def partitionable(name: str) -> Fleet:
    """Make a node with eight GPUs that can be cut into MIG devices when they are allocated."""
    return nvidia_partitions.partitionable_node(name)


def shareable(name: str) -> Fleet:
    """Make a node with eight H100 that claims share by memory."""
    return hami.gpu_node(name, model=nvidia.H100, gpus=8)


def cluster(nodes: int, *shares: Share) -> Snapshot:
    """Make a cluster of several kinds of nodes, in blocks, as racks of one kind stand together."""
    fleets: list[Fleet] = []
    for share in shares:
        count = nodes * share.percent // 100
        fleets += [share.make(f"n{index:05}") for index in range(len(fleets), len(fleets) + count)]
    return read(reduce(add, fleets, Fleet()))


def read(fleet: Fleet) -> Snapshot:
    """Read the manifests of a fleet."""
    return Snapshot(
        nodes=tuple(sorted((decode_node(_raw(each)) for each in fleet.nodes), key=lambda node: node.name)),
        slices=tuple(sorted((decode_slice(_raw(each)) for each in fleet.slices), key=lambda each: each.name)),
        classes=tuple(sorted((decode_class(_raw(each)) for each in fleet.classes), key=lambda each: each.name)),
    )


def _raw(manifest: Manifest) -> bytes:
    metadata = {"uid": f"uid-{manifest['metadata']['name']}", "resourceVersion": "1", **manifest["metadata"]}
    return msgspec.json.encode({**manifest, "metadata": metadata})


def in_use(snapshot: Snapshot, free: Sequence[int], chance: random.Random, *, first: int = 0) -> Snapshot:
    """
    Let claims of single pods hold devices until each node has about as many left as drawn from `free`.

    Nodes before `first` stay free. Only whole devices of nodes without shared counters are held; each holder takes its
    part of cpu and memory.
    """
    spared = {node.name for node in snapshot.nodes[:first]}
    claims: list[Claim] = []
    pods: list[Pod] = []
    for each in snapshot.slices:
        held = [device for device in each.devices if not device.consumes_counters]
        is_spared = each.scope.node_name in spared or each.driver != nvidia.DRIVER
        if is_spared or len(held) < len(each.devices) or not each.devices:
            continue
        for device in chance.sample(held, max(0, len(held) - chance.choice(free))):
            claim, pod = _holder(len(claims), each.scope.node_name, DeviceId(each.driver, each.pool, device.name))
            claims.append(claim)
            pods.append(pod)
    return msgspec.structs.replace(
        snapshot,
        claims=tuple(sorted(claims, key=lambda claim: claim.id)),
        pods=tuple(sorted(pods, key=lambda pod: pod.id)),
    )


def _holder(number: int, node: str, device: DeviceId) -> tuple[Claim, Pod]:
    """Make a running pod and its claim that holds one device."""
    name = f"r{number:05}"
    selector = NodeSelector(
        terms=(
            NodeSelectorTerm(
                match_fields=(
                    NodeSelectorRequirement(key="metadata.name", operator=NodeSelectorOperator.IN, values=(node,)),
                )
            ),
        )
    )
    claim_id = ClaimId(NAMESPACE, f"{name}-devices")
    claim = Claim(
        id=claim_id,
        uid=f"uid-{claim_id.name}",
        requests=(Request(name="gpus", alternatives=(SubRequest(device_class="gpu.nvidia.com"),)),),
        allocation=Allocation(results=(DeviceResult(request="gpus", device=device),), node_selector=selector),
        reserved_for=(ConsumerReference(resource="pods", name=name, uid=f"uid-{name}"),),
        owner_pod_uid=f"uid-{name}",
    )
    pod = Pod(
        id=PodId(NAMESPACE, name),
        uid=f"uid-{name}",
        scheduler_name="dovetail",
        node_name=node,
        requests=(("cpu", CPU_PER_GPU), ("memory", MEMORY_PER_GPU)),
        claims=(PodClaim(entry="devices", claim=claim_id, template="devices"),),
    )
    return claim, pod


def waiting(snapshot: Snapshot, claims: Iterable[Claim]) -> Snapshot:
    """Add claims that nothing is allocated for yet."""
    return msgspec.structs.replace(
        snapshot, claims=tuple(sorted((*snapshot.claims, *claims), key=lambda claim: claim.id))
    )
