"""What is wanted: pods with claims of their own, in queue order; the vocabulary that workloads are written in."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.bench.clusters import CPU_PER_GPU, MEMORY_PER_GPU, NAMESPACE
from e2e.fleet import hami, nvidia
from e2e.fleet.pci import NUMA_NODE, PCIE_ROOT
from solver.domain import (
    Claim,
    ClaimId,
    Constraint,
    ConstraintKind,
    Pod,
    PodClaim,
    PodId,
    Request,
    SubRequest,
    quantity,
)

GPU_CLASS = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"
RDMA_CLASS = "rdma"
PRIORITIES = (1, 1, 1, 2, 2, 5)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod asks for; `cpu` in millicores, `memory` in bytes, `weight` how often it occurs among others."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    cpu: int = CPU_PER_GPU
    memory: int = MEMORY_PER_GPU
    weight: int = 1


def gpus(count: int, *, model: str = "", weight: int = 1, cpu: int = 0) -> Ask:
    """Ask for whole GPUs, of one model if it is named."""
    ask = Request(name="gpus", alternatives=(_gpus(count, model),))
    return Ask((ask,), (), cpu or count * CPU_PER_GPU, count * MEMORY_PER_GPU, weight)


def first_available(*wanted: tuple[int, str], weight: int = 1) -> Ask:
    """Ask for so many GPUs of the first model that can be had."""
    alternatives = tuple(_gpus(count, model, f"a{index}") for index, (count, model) in enumerate(wanted))
    most = max(count for count, _ in wanted)
    ask = Request(name="gpus", alternatives=alternatives)
    return Ask((ask,), (), most * CPU_PER_GPU, most * MEMORY_PER_GPU, weight)


def pairs(count: int, *, weight: int = 1) -> Ask:
    """Ask for pairs of a GPU and a network card, each pair behind one PCIe root."""
    requests = tuple(
        request
        for index in range(count)
        for request in (
            Request(name=f"gpu-{index}", alternatives=(_gpus(1, ""),)),
            Request(name=f"card-{index}", alternatives=(SubRequest(device_class=RDMA_CLASS),)),
        )
    )
    constraints = tuple(_match(PCIE_ROOT, f"gpu-{index}", f"card-{index}") for index in range(count))
    return Ask(requests, constraints, count * CPU_PER_GPU, count * MEMORY_PER_GPU, weight)


def together(count: int, attribute: str = NUMA_NODE, *, weight: int = 1) -> Ask:
    """Ask for GPUs that agree in an attribute."""
    whole = gpus(count, weight=weight)
    return Ask(whole.requests, (_match(attribute),), whole.cpu, whole.memory, weight)


def profile(name: str, *, weight: int = 1) -> Ask:
    """Ask for a MIG device of a profile."""
    selector = f"device.attributes['{nvidia.DRIVER}'].profile == '{name}'"
    ask = Request(name="mig", alternatives=(SubRequest(device_class=MIG_CLASS, selectors=(selector,)),))
    return Ask((ask,), (), 500, 2**30, weight)


def share(gibibytes: int, *, weight: int = 1) -> Ask:
    """Ask for a share of a GPU's memory."""
    capacity = (("cores", quantity.parse("5")), ("memory", quantity.parse(f"{gibibytes}Gi")))
    ask = Request(name="share", alternatives=(SubRequest(device_class=hami.DRIVER, capacity_requests=capacity),))
    return Ask((ask,), (), 500, 2**30, weight)


def mixed(asks: Sequence[Ask], count: int, chance: random.Random) -> list[Ask]:
    """Draw asks by weight."""
    return chance.choices(asks, weights=[ask.weight for ask in asks], k=count)


def waiting(asks: Iterable[Ask], priorities: Iterable[int], prefix: str = "p") -> tuple[list[Pod], list[Claim]]:
    """Make a pod and its claim for every ask, in queue order: priority first, then as they came."""
    pods, claims = [], []
    for index, (ask, priority) in enumerate(zip(asks, priorities, strict=False)):
        name = f"{prefix}{index:05}"
        claim_id = ClaimId(NAMESPACE, f"{name}-devices")
        requests = (("cpu", ask.cpu), ("memory", ask.memory))
        entry = PodClaim(entry="devices", claim=claim_id, template="devices")
        uid = f"uid-{name}"
        pods.append(
            Pod(
                id=PodId(NAMESPACE, name),
                uid=uid,
                scheduler_name="dovetail",
                priority=priority,
                requests=requests,
                claims=(entry,),
            )
        )
        claims.append(
            Claim(
                id=claim_id,
                uid=f"uid-{name}-devices",
                requests=ask.requests,
                constraints=ask.constraints,
                owner_pod_uid=uid,
            )
        )
    pods.sort(key=lambda pod: -pod.priority)
    return pods, claims


def _gpus(count: int, model: str, name: str = "") -> SubRequest:
    """Ask for GPUs by what the driver calls the product."""
    attributes = f"device.attributes['{nvidia.DRIVER}']"
    selectors = (f"{attributes}.productName == '{model}'",) if model else ()
    return SubRequest(name=name, device_class=GPU_CLASS, selectors=selectors, count=count)


def _match(attribute: str, *requests: str) -> Constraint:
    return Constraint(kind=ConstraintKind.MATCH, attribute=attribute, requests=requests)
