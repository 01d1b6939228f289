"""
Dovetail over a trace: machines publish slices, each task is a pod with a claim, and each decision is about one pod.

A GPU is a device of which claims take thousandths (consumable capacity, KEP-5075); a task of whole GPUs asks for all
thousandths of several. Objects are those of the scheduler's cache, and the plan is the solver's own.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from e2e.bench.clusters import read
from e2e.fleet.shape import Fleet, Manifest, device, device_class, slices
from e2e.traces.workload import WHOLE, Machine, Shape
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from solver import SolverCache, solve
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    ConsumerReference,
    ExpectedPod,
    Plan,
    Pod,
    PodClaim,
    PodId,
    Policy,
    Request,
    SubRequest,
)
from solver.domain.quantity import parse

_DRIVER: Final = "gpu.trace.example.com"
_CLASS: Final = "gpu"
_MILLI: Final = "milli"
_NAMESPACE: Final = "trace"
_KINDS: Final = 16
"""So many kinds of tasks are expected."""
_PATIENCE_SECONDS: Final = 3600.0
"""No end for the clock of a busy machine: work is the limit."""


class Dovetail:
    """Decides one task after the other; `choose` is that of `policies.Policy`."""

    def __init__(self, machines: Sequence[Machine], policy: Policy) -> None:
        self._policy: Final = policy
        self._cluster: Final = Cluster()
        self._cache: Final = SolverCache()
        self._numbers: Final = {machine.name: number for number, machine in enumerate(machines)}
        self._count = 0
        snapshot = read(_fleet(machines))
        for kind, objects in (
            (Kind.NODES, snapshot.nodes),
            (Kind.SLICES, snapshot.slices),
            (Kind.CLASSES, snapshot.classes),
        ):
            for each in objects:
                self._cluster.apply(Change(kind=kind, key=each.name, value=each))

    def choose(self, shape: Shape, _: npt.NDArray[np.int64]) -> tuple[int, Sequence[int]] | None:
        """Decide a task as a pod of its own, and bind it; None where it is not placed."""
        self._count += 1
        pod, claim = _pod(f"task-{self._count:06}", shape)
        if claim is not None:
            self._cluster.apply(Change(kind=Kind.CLAIMS, key=_key(claim.id), value=claim))
        budget = Budget(seconds=_PATIENCE_SECONDS)
        plan = solve(self._cluster.snapshot(), Batch(pods=(pod,)), self._policy, budget, self._cache)
        if not plan.placements:
            if claim is not None:
                self._cluster.apply(Change(kind=Kind.CLAIMS, key=_key(claim.id), value=None))
            return None
        (placement,) = plan.placements
        gpus = self._allocate(pod, claim, plan) if claim is not None else ()
        bound = msgspec.structs.replace(pod, node_name=placement.node)
        self._cluster.apply(Change(kind=Kind.PODS, key=_key(pod.id), value=bound))
        return self._numbers[placement.node], gpus

    def _allocate(self, pod: Pod, claim: Claim, plan: Plan) -> tuple[int, ...]:
        """Write the status of a claim, and return the numbers of its GPUs."""
        (planned,) = plan.allocations
        reserved = (ConsumerReference(resource="pods", name=pod.id.name, uid=pod.uid),)
        allocated = msgspec.structs.replace(claim, allocation=planned.allocation, reserved_for=reserved)
        self._cluster.apply(Change(kind=Kind.CLAIMS, key=_key(claim.id), value=allocated))
        return tuple(int(each.device.device.removeprefix("gpu-")) for each in planned.allocation.results)


def _key(name: PodId | ClaimId) -> str:
    return f"{name.namespace}/{name.name}"


def _fleet(machines: Sequence[Machine]) -> Fleet:
    return Fleet(
        tuple(map(_node, machines)),
        (device_class(_CLASS, f"device.driver == '{_DRIVER}'"),),
        tuple(each for machine in machines for each in slices(_DRIVER, machine.name, _gpus(machine))),
    )


def _node(machine: Machine) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": {"kubernetes.io/hostname": machine.name}},
        "status": {
            "allocatable": {"cpu": f"{machine.cpu}m", "memory": f"{machine.memory}Mi", "pods": "1000"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _gpus(machine: Machine) -> list[Manifest]:
    """Make the GPUs of a machine, of which claims take thousandths."""
    return [
        {**device(f"gpu-{number}", {"model": machine.model}, {_MILLI: str(WHOLE)}), "allowMultipleAllocations": True}
        for number in range(machine.gpus)
    ]


def _pod(name: str, shape: Shape) -> tuple[Pod, Claim | None]:
    """Make a pod that asks for what a task does, and its claim if that are GPUs."""
    claim = None
    if shape.gpus:
        requests = _requests(shape.gpus, shape.milli, shape.models)
        claim = Claim(id=ClaimId(_NAMESPACE, name), uid=f"claim-{name}", requests=requests, owner_pod_uid=name)
    pod = Pod(
        id=PodId(_NAMESPACE, name),
        uid=name,
        scheduler_name="dovetail",
        requests=(("cpu", shape.cpu), ("memory", shape.memory << 20)),
        claims=(PodClaim(entry="gpus", claim=claim.id, template="gpus"),) if claim is not None else (),
    )
    return pod, claim


def expected(tasks: Sequence[Shape]) -> tuple[ExpectedPod, ...]:
    """
    Return the kinds of tasks that a list has: the most frequent requests for GPUs, with the mean of cpu and memory.

    These are what a cluster's history shows. Shares are thousandths of the tasks with GPUs.
    """
    kinds: defaultdict[tuple[int, int, tuple[str, ...]], list[Shape]] = defaultdict(list)
    for task in tasks:
        if task.gpus:
            kinds[task.gpus, task.milli, task.models].append(task)
    total = sum(map(len, kinds.values()))
    frequent = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))[:_KINDS]
    return tuple(
        ExpectedPod(
            share=round(1000 * len(found) / total),
            requests=(
                ("cpu", round(fmean(task.cpu for task in found))),
                ("memory", round(fmean(task.memory for task in found)) << 20),
            ),
            device_requests=_requests(*asked),
        )
        for asked, found in frequent
    )


@cache
def _requests(gpus: int, milli: int, models: tuple[str, ...]) -> tuple[Request, ...]:
    named = ", ".join(f"'{model}'" for model in models)
    selectors = (f"device.attributes['{_DRIVER}'].model in [{named}]",) if models else ()
    wanted = SubRequest(
        device_class=_CLASS, count=gpus, selectors=selectors, capacity_requests=((_MILLI, parse(str(milli))),)
    )
    return (Request(name="gpus", alternatives=(wanted,)),)
