"""
Dovetail over a trace: machines publish slices, each task is a pod with a claim, and each decision is about one pod.

A GPU is a device of which claims take thousandths (consumable capacity, KEP-5075); a task of whole GPUs asks for all
thousandths of several. Objects are those of the scheduler's cache, and the plan is the solver's own.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from e2e.fleet.shape import Fleet, Manifest, device, device_class, slices
from e2e.traces.trace_cluster import CLASS, DRIVER, GPU, NAMESPACE, TraceCluster
from e2e.traces.workload import WHOLE, Machine, Shape
from solver.domain import (
    Batch,
    Claim,
    ClaimId,
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

_MILLI: Final = "milli"
_KINDS: Final = 16
"""So many kinds of tasks are expected."""


class Task(NamedTuple):
    """A task as a pod, with its claim if it asks for GPUs."""

    pod: Pod
    claim: Claim | None


class Dovetail:
    """Decides one task after the other; `choose` is that of `policies.Policy`."""

    def __init__(self, machines: Sequence[Machine], policy: Policy) -> None:
        self._cluster: Final = TraceCluster(_fleet(machines), policy)
        self._numbers: Final = {machine.name: number for number, machine in enumerate(machines)}
        self._count = 0

    def choose(self, shape: Shape, _: npt.NDArray[np.int64]) -> tuple[int, Sequence[int]] | None:
        """Decide a task as a pod of its own, and bind it; None where it is not placed."""
        task = self.task(shape)
        return self.settle(task, self.decide(task))

    def task(self, shape: Shape) -> Task:
        """Make the next pod, with its claim."""
        self._count += 1
        return _task(f"task-{self._count:06}", shape)

    def decide(self, task: Task) -> Plan:
        """Create a pod's claim, and decide the pod."""
        if task.claim is not None:
            self._cluster.put(task.claim)
        return self._cluster.decide(Batch(pods=(task.pod,)))

    def settle(self, task: Task, plan: Plan) -> tuple[int, Sequence[int]] | None:
        """Carry out a plan for a pod; None where it is not placed, and its claim is gone."""
        pod, claim = task
        if not plan.placements:
            if claim is not None:
                self._cluster.remove(claim)
            return None
        (placement,) = plan.placements
        gpus = self._cluster.allocate(claim, plan.allocations[0].allocation, pod) if claim is not None else ()
        self._cluster.bind(pod, placement.node)
        return self._numbers[placement.node], gpus


def _fleet(machines: Sequence[Machine]) -> Fleet:
    return Fleet(
        tuple(map(_node, machines)),
        (device_class(CLASS, f"device.driver == '{DRIVER}'"),),
        tuple(each for machine in machines for each in slices(DRIVER, machine.name, _gpus(machine))),
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
        {**device(f"{GPU}{number}", {"model": machine.model}, {_MILLI: str(WHOLE)}), "allowMultipleAllocations": True}
        for number in range(machine.gpus)
    ]


def _task(name: str, shape: Shape) -> Task:
    """Make a pod that asks for what a task does, and its claim if that are GPUs."""
    claim = None
    if shape.gpus:
        requests = _requests(shape.gpus, shape.milli, shape.models)
        claim = Claim(id=ClaimId(NAMESPACE, name), uid=f"claim-{name}", requests=requests, owner_pod_uid=name)
    pod = Pod(
        id=PodId(NAMESPACE, name),
        uid=name,
        scheduler_name="dovetail",
        requests=(("cpu", shape.cpu), ("memory", shape.memory << 20)),
        claims=(PodClaim(entry="gpus", claim=claim.id, template="gpus"),) if claim is not None else (),
    )
    return Task(pod, claim)


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
    selectors = (f"device.attributes['{DRIVER}'].model in [{named}]",) if models else ()
    wanted = SubRequest(
        device_class=CLASS, count=gpus, selectors=selectors, capacity_requests=((_MILLI, parse(str(milli))),)
    )
    return (Request(name="gpus", alternatives=(wanted,)),)
