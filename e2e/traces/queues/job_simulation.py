"""
Time, from one arrival or end to the next, and who has which GPU.

A job that fits on one machine is one pod; a larger one is a pod for each machine that it fills and one for the rest.
It runs while all its pods have their GPUs. How long it runs, no policy knows.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

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


class Moves(NamedTuple):
    """
    Pods that run, each with other GPUs from now on, in an order in which these are free; and pods that fit then.

    `moved` are pods of jobs with one pod: a job of several is a gang, and stays.
    """

    moved: Sequence[Placed] = ()
    placed: Sequence[Placed] = ()


MOVE_SECONDS: Final = 60.0
"""What a move costs its job: a restart from its checkpoint."""
_HOUR: Final = 3600.0


class Mover(Protocol):
    """Moves pods so that others fit."""

    def moves(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], now: float, most: int, /) -> Moves:
        """Choose at most so many moves."""


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
    delays: dict[int, float] = field(default_factory=dict)
    """Seconds that jobs lost by moves."""

    @property
    def moves(self) -> int:
        """How many pods were moved."""
        return round(sum(self.delays.values()) / MOVE_SECONDS)


def pods_of(job: Job, gpus: int) -> tuple[JobPod, ...]:
    """Return the pods of a job on machines with so many GPUs."""
    whole, rest = divmod(job.gpus, gpus)
    sizes = [gpus] * whole + [rest] * (rest > 0)
    return tuple(JobPod(job, index, size) for index, size in enumerate(sizes))


def has_room(waiting: Sequence[JobPod], free: Sequence[Sequence[int]]) -> bool:
    """Whether the smallest pod that waits fits on any machine."""
    return max(map(len, free)) >= min(pod.gpus for pod in waiting)


def simulate(trace: JobTrace, policy: QueuePolicy, mover: Mover | None = None, moves_per_hour: int = 0) -> Outcome:
    """
    Let a policy run all jobs; a mover makes room for those that it leaves, within the moves of an hour.

    Raises TraceError where one takes a GPU that is not free.
    """
    state = _State(trace)
    while state.arrivals or state.ends:
        state.advance(policy)
        if state.waiting:
            state.fill(policy.place(tuple(state.waiting), state.free, state.now))
        left = moves_per_hour - state.moves_within(_HOUR)
        if state.waiting and mover is not None and left > 0:
            found = mover.moves(tuple(state.waiting), state.free, state.now, left)
            for each in found.moved:
                state.move(each)
            state.fill(found.placed)
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
        self.end_of: dict[Job, float] = {}
        """When each job ends as things stand; earlier entries of `ends` do not count."""
        self.moved_at: list[float] = []

    def fill(self, placed: Sequence[Placed]) -> None:
        """Give pods that wait their GPUs."""
        for each in placed:
            self.take(each)
        self.waiting = {pod: None for pod in self.waiting if pod not in self.held}

    def moves_within(self, seconds: float) -> int:
        """Count the moves of late."""
        return sum(self.now - at < seconds for at in self.moved_at)

    def move(self, moved: Placed) -> None:
        """Give a pod that runs other GPUs; its job ends later by what the move costs."""
        pod, gpus = moved
        if self.held.get(pod) is None or len(pods_of(pod.job, self.trace.gpus)) > 1:
            raise TraceError(f"pod {pod.index} of job {pod.job.number} cannot be moved")
        if len(set(gpus)) != pod.gpus or not all(gpu in self.free[machine] for machine, gpu in gpus):
            raise TraceError(f"pod {pod.index} of job {pod.job.number} cannot move to {list(gpus)}")
        for machine, gpu in self.held[pod]:
            self.free[machine].append(gpu)
            self.free[machine].sort()
        for machine, gpu in gpus:
            self.free[machine].remove(gpu)
        self.held[pod] = gpus
        self.moved_at.append(self.now)
        delays, number = self.outcome.delays, pod.job.number
        delays[number] = delays.get(number, 0.0) + MOVE_SECONDS
        self.end_of[pod.job] += MOVE_SECONDS
        heapq.heappush(self.ends, (self.end_of[pod.job], number, pod.job))

    def advance(self, policy: QueuePolicy) -> None:
        """Go to the next moment at which jobs end or arrive, and let them."""
        moments = [self.ends[0][0]] if self.ends else []
        moments += [self.arrivals[-1].arrival] if self.arrivals else []
        self.now = min(moments)
        while self.ends and self.ends[0][0] <= self.now:
            at, _, job = heapq.heappop(self.ends)
            if self.end_of.get(job) != at:  # it was moved, and ends later
                continue
            del self.end_of[job]
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
            self.end_of[job] = self.now + job.seconds
            heapq.heappush(self.ends, (self.end_of[job], job.number, job))
