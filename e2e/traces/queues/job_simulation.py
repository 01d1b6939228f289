"""
Time, from one arrival or end to the next, and who has which GPU.

A job that fits on one machine is one pod; a larger one is a pod for each machine that it fills and one for the rest.
It runs while all its pods have their GPUs. How long it runs, no policy knows.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from e2e.traces.queues.job_traces import Job, JobTrace
from e2e.traces.workload import TraceError

Gpu = tuple[int, int]
"""Machine and number, from 0."""


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod of a job, with `gpus` of one machine."""

    job: Job
    index: int
    gpus: int


class Placed(NamedTuple):
    """A pod and its GPUs, all of one machine."""

    pod: JobPod
    gpus: tuple[Gpu, ...]


class QueuePolicy(Protocol):
    """Decides about the pods that wait, in the order in which their jobs came."""

    def place(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], now: float, /) -> Sequence[Placed]:
        """Place some of the pods; `free` has the free GPUs of each machine."""

    def end(self, job: Job, /) -> None:
        """Take back the GPUs of a job that has ended."""


@dataclass(slots=True)
class Outcome:
    """When jobs started and on which GPUs, by number; `too_large` jobs need more machines than there are."""

    starts: dict[int, float] = field(default_factory=dict)
    gpus: dict[int, tuple[Gpu, ...]] = field(default_factory=dict)
    too_large: tuple[Job, ...] = ()


def pods_of(job: Job, gpus: int) -> tuple[JobPod, ...]:
    """Return the pods of a job on machines with so many GPUs."""
    whole, rest = divmod(job.gpus, gpus)
    sizes = [gpus] * whole + [rest] * (rest > 0)
    return tuple(JobPod(job, index, size) for index, size in enumerate(sizes))


def has_room(waiting: Sequence[JobPod], free: Sequence[Sequence[int]]) -> bool:
    """Whether the smallest pod that waits fits on any machine."""
    return max(map(len, free)) >= min(pod.gpus for pod in waiting)


def simulate(trace: JobTrace, policy: QueuePolicy) -> Outcome:
    """Let a policy run all jobs. Raises TraceError where it takes a GPU that is not free."""
    state = _State(trace)
    while state.arrivals or state.ends:
        state.advance(policy)
        if state.waiting:
            for placed in policy.place(tuple(state.waiting), state.free, state.now):
                state.take(placed)
            state.waiting = {pod: None for pod in state.waiting if pod not in state.held}
    return state.outcome


class _State:
    """The simulation at one moment. `held` are pods that have their GPUs, `missing` counts the others of a job."""

    def __init__(self, trace: JobTrace) -> None:
        self.trace = trace
        self.now = 0.0
        self.outcome = Outcome()
        self.free = [list(range(trace.gpus)) for _ in range(trace.machines)]
        fits = {job: len(pods_of(job, trace.gpus)) <= trace.machines for job in trace.jobs}
        self.outcome.too_large = tuple(job for job in trace.jobs if not fits[job])
        self.arrivals = [job for job in reversed(trace.jobs) if fits[job]]
        """The next one is the last."""
        self.ends: list[tuple[float, int, Job]] = []
        self.waiting: dict[JobPod, None] = {}
        self.held: dict[JobPod, tuple[Gpu, ...]] = {}
        self.missing: dict[Job, int] = {}

    def advance(self, policy: QueuePolicy) -> None:
        """Go to the next moment at which jobs end or arrive, and let them."""
        moments = [self.ends[0][0]] if self.ends else []
        moments += [self.arrivals[-1].arrival] if self.arrivals else []
        self.now = min(moments)
        while self.ends and self.ends[0][0] <= self.now:
            job = heapq.heappop(self.ends)[2]
            for pod in pods_of(job, self.trace.gpus):
                for machine, gpu in self.held.pop(pod):
                    self.free[machine].append(gpu)
                    self.free[machine].sort()
            policy.end(job)
        while self.arrivals and self.arrivals[-1].arrival <= self.now:
            job = self.arrivals.pop()
            pods = pods_of(job, self.trace.gpus)
            self.missing[job] = len(pods)
            self.waiting.update(dict.fromkeys(pods))

    def take(self, placed: Placed) -> None:
        """Give a pod its GPUs; its job starts with the last one."""
        pod, gpus = placed
        is_free = pod in self.waiting and pod not in self.held and len(set(gpus)) == pod.gpus
        one_machine = len({machine for machine, _ in gpus}) == 1
        if not (is_free and one_machine and all(gpu in self.free[machine] for machine, gpu in gpus)):
            raise TraceError(f"pod {pod.index} of job {pod.job.number} cannot have {list(gpus)}")
        for machine, gpu in gpus:
            self.free[machine].remove(gpu)
        self.held[pod] = gpus
        self.missing[pod.job] -= 1
        if not self.missing[pod.job]:
            job = pod.job
            self.outcome.starts[job.number] = self.now
            own = (self.held[each] for each in pods_of(job, self.trace.gpus))
            self.outcome.gpus[job.number] = tuple(gpu for each in own for gpu in each)
            heapq.heappush(self.ends, (self.now + job.seconds, job.number, job))
