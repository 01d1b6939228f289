"""
Dovetail over a queue: all waiting pods are one batch, in the order of the queue, and the plan is the solver's own.

A pod has a claim for its GPUs, a job of several pods is a gang. Objects are those of the scheduler's cache. Starving
pods are found and marked by the scheduler's own queue, with the time of the simulation. Where more pods wait than a
batch may have, the rest is decided next, as by the scheduler.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from e2e.fleet.shape import Fleet, Machine, device, device_class, node, slices
from e2e.traces.queues.job_simulation import JobPod, Moves, Placed, has_room, pods_of
from e2e.traces.queues.job_traces import Job, JobTrace
from e2e.traces.trace_cluster import CLASS, DRIVER, GPU, NAMESPACE, TraceCluster
from scheduler.queue.starvation import StarvationTracker
from scheduler.settings.schema import BatchLimits
from solver.domain import (
    FINALIZER,
    Batch,
    Claim,
    ClaimAllocation,
    ClaimId,
    Controller,
    Gang,
    GangId,
    Placement,
    Pod,
    PodClaim,
    PodId,
    Policy,
    Relocation,
    Request,
    SubRequest,
)

_MACHINE: Final = Machine(instance_type="trace", cpu=128, memory_gib=1024, disk_gib=1024)
"""Only GPUs are scarce."""
_LOOK_SECONDS: Final = 600.0
"""How often moves are looked for, for jobs of one size."""
_EPOCH: Final = 1_600_000_000
"""Seconds since the epoch at which traces begin: pods have start times."""


class DovetailQueue:
    """Decides batches; a pod starves after `starvation_seconds`. It is a `job_simulation.QueuePolicy`."""

    def __init__(self, trace: JobTrace, starvation_seconds: float, policy: Policy) -> None:
        self._machine_gpus: Final = trace.gpus
        self._starvation: Final = StarvationTracker(starvation_seconds)
        self._reserves_nodes: Final = starvation_seconds < math.inf
        self._objects: Final[dict[JobPod, tuple[Pod, Claim]]] = {}
        self._tried: Final[dict[int, float]] = {}
        """When moves were last looked for, by the GPUs of a job."""
        names = [_name(machine) for machine in range(trace.machines)]
        self._numbers: Final = {name: machine for machine, name in enumerate(names)}
        self._cluster: Final = TraceCluster(_fleet(names, trace.gpus), policy)

    def place(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], now: float) -> Sequence[Placed]:
        """Decide all waiting pods, and again while nodes are reserved no longer."""
        if not (self._reserves_nodes or has_room(waiting, free)):  # else a decision without placements reserves nodes
            return ()
        placed: list[Placed] = []
        is_released = True
        while is_released and waiting:
            before, is_released = len(placed), False
            for pods in _batches(waiting, BatchLimits().max_pods):
                found, released = self._decide(pods, now)
                placed += found
                is_released |= released
            done = {each.pod for each in placed}
            waiting = [pod for pod in waiting if pod not in done]
            is_released &= len(placed) > before
        return placed

    def end(self, job: Job) -> None:
        """Let the pods of a job leave, and their claims."""
        for pod in pods_of(job, self._machine_gpus):
            for each in self._objects.pop(pod):
                self._cluster.remove(each)

    def moves(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], now: float, most: int) -> Moves:
        """
        Make room for the first job of the queue that moves can let in, and that has enough free GPUs somewhere.

        One job of each size is tried, and a size again after `_LOOK_SECONDS`.
        """
        total = sum(map(len, free))
        for job in dict.fromkeys(pod.job for pod in waiting):
            pods = [pod for pod in waiting if pod.job == job]
            if job.gpus > total or now - self._tried.get(job.gpus, -math.inf) < _LOOK_SECONDS:
                continue
            self._tried[job.gpus] = now
            if len(pods) < len(pods_of(job, self._machine_gpus)):
                continue
            for pod in pods:
                self._made(pod)
            found = self._cluster.moves(self._batch(pods), _EPOCH + int(now))
            if found.is_found and found.is_stepwise and 0 < len(found.moves) <= most:
                del self._tried[job.gpus]
                return self._moved(found, pods, now)
        return Moves()

    def _moved(self, found: Relocation, waiting: Sequence[JobPod], now: float) -> Moves:
        """Carry moves out in the cluster, and bind the pods that they were for."""
        running = {made.id: pod for pod, (made, _) in self._objects.items()}
        moved = []
        for move in found.moves:
            pod, claim = self._objects[running[move.pod]]
            gpus = self._cluster.allocate(claim, move.allocations[0][1], pod)
            self._cluster.bind(pod, move.target, _EPOCH + int(now))
            moved.append(Placed(running[move.pod], tuple((self._numbers[move.target], gpu) for gpu in gpus)))
        made = {self._objects[pod][0].id: pod for pod in waiting}
        return Moves(moved, self._bound(found.placements, found.allocations, made, now))

    def _bound(
        self,
        placements: Iterable[Placement],
        allocations: Iterable[ClaimAllocation],
        made: Mapping[PodId, JobPod],
        now: float,
    ) -> list[Placed]:
        """Bind pods to their nodes, with their GPUs."""
        placed = []
        given = {each.claim: each.allocation for each in allocations}
        for placement in placements:
            pod, claim = self._objects[made[placement.pod]]
            gpus = self._cluster.allocate(claim, given[claim.id], pod)
            self._cluster.bind(pod, placement.node, _EPOCH + int(now))
            self._starvation.forget(pod.uid)
            machine = self._numbers[placement.node]
            placed.append(Placed(made[placement.pod], tuple((machine, gpu) for gpu in gpus)))
        return placed

    def _decide(self, pods: Sequence[JobPod], now: float) -> tuple[list[Placed], bool]:
        """Decide a batch; return what it places, and whether nodes are no longer reserved."""
        made = {self._made(pod)[0].id: pod for pod in pods}
        batch = self._starvation.marked(self._batch(pods), now)
        plan = self._cluster.decide(batch, _EPOCH + int(now))
        is_released = self._starvation.decided(batch, plan, now)
        return self._bound(plan.placements, plan.allocations, made, now), is_released

    def _batch(self, pods: Sequence[JobPod]) -> Batch:
        members: dict[GangId, int] = {}
        for pod in pods:
            gang = self._objects[pod][0].gang
            if gang is not None:
                members[gang] = members.get(gang, 0) + 1
        return Batch(
            pods=tuple(self._objects[pod][0] for pod in pods),
            gangs=tuple(Gang(id=gang, min_count=count, member_count=count) for gang, count in members.items()),
        )

    def _made(self, pod: JobPod) -> tuple[Pod, Claim]:
        """Return the objects of a pod; its claim exists from the first decision on."""
        if pod not in self._objects:
            made, claim = self._objects[pod] = _pod(pod, is_gang=pod.job.gpus > self._machine_gpus)
            self._cluster.put(claim)
            self._cluster.put(made)
        return self._objects[pod]


def _batches(pods: Sequence[JobPod], most: int) -> Iterator[list[JobPod]]:
    """Split the queue into batches; the pods of a job stay together."""
    batch: list[JobPod] = []
    for number, pod in enumerate(pods):
        if len(batch) >= most and pod.job != pods[number - 1].job:
            yield batch
            batch = []
        batch.append(pod)
    if batch:
        yield batch


def _name(machine: int) -> str:
    return f"machine-{machine:04}"


def _fleet(names: Sequence[str], gpus: int) -> Fleet:
    devices = [device(f"{GPU}{number}", {"model": "gpu"}) for number in range(gpus)]
    return Fleet(
        tuple(node(name, _MACHINE) for name in names),
        (device_class(CLASS, f"device.driver == '{DRIVER}'"),),
        tuple(each for name in names for each in slices(DRIVER, name, devices)),
    )


def _pod(pod: JobPod, *, is_gang: bool) -> tuple[Pod, Claim]:
    job = f"job-{pod.job.number:06}"
    name = f"{job}-{pod.index:02}"
    wanted = SubRequest(device_class=CLASS, count=pod.gpus)
    claim = Claim(
        id=ClaimId(NAMESPACE, name),
        uid=f"claim-{name}",
        requests=(Request(name="gpus", alternatives=(wanted,)),),
        owner_pod_uid=name,
        finalizers=(FINALIZER,),
    )
    made = Pod(
        id=PodId(NAMESPACE, name),
        uid=name,
        scheduler_name="dovetail",
        claims=(PodClaim(entry="gpus", claim=claim.id, template="gpus"),),
        gang=GangId(NAMESPACE, job, "dovetail.dev") if is_gang else None,
        controller=Controller(kind="Job", uid=job),
        creation=datetime.fromtimestamp(_EPOCH + int(pod.job.arrival), UTC).isoformat(),
    )
    return made, claim
