"""
Simple policies. All go through the queue first come, first served, and pass over what does not fit.

First fit and best fit start a job with all its pods or not at all. `OneByOne` is kube-scheduler without gangs: each pod
by itself on the emptiest machine (its default score, LeastAllocated), and pods of a job that is not whole keep what
they have.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from e2e.traces.queues.job_simulation import JobPod, Placed, QueuePolicy, has_room
from e2e.traces.queues.job_traces import Job

Choose = Callable[[Sequence[int], Sequence[int]], int]
"""Chooses one of the machines that have room, by their numbers and by how many GPUs each machine has left."""


class _InOrder:
    """Goes through the queue once. `is_gang` says whether the pods of a job are placed together."""

    def __init__(self, choose: Choose, *, is_gang: bool) -> None:
        self._choose: Final = choose
        self._is_gang: Final = is_gang

    def place(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], _: float) -> Sequence[Placed]:
        """Place what fits."""
        if not has_room(waiting, free):
            return ()
        left = [list(gpus) for gpus in free]
        placed: list[Placed] = []
        failed: set[tuple[int, ...]] = set()
        for _key, group in groupby(waiting, key=lambda pod: pod.job.number if self._is_gang else pod):
            pods = tuple(group)
            sizes = tuple(pod.gpus for pod in pods)
            if sizes in failed:  # what did not fit fits no more: room only shrinks
                continue
            found = self._fit(pods, left)
            placed += found
            if not found:
                failed.add(sizes)
        return placed

    def end(self, job: Job) -> None:
        """Remember nothing."""

    def _fit(self, pods: Sequence[JobPod], left: list[list[int]]) -> list[Placed]:
        """Place all pods, and take their GPUs from what is left; or none."""
        found: list[Placed] = []
        for pod in pods:
            counts = [len(gpus) for gpus in left]
            fitting = [machine for machine, count in enumerate(counts) if count >= pod.gpus]
            if not fitting:
                for _, gpus in found:
                    for machine, gpu in gpus:
                        left[machine].append(gpu)
                        left[machine].sort()
                return []
            machine = self._choose(fitting, counts)
            found.append(Placed(pod, tuple((machine, gpu) for gpu in left[machine][: pod.gpus])))
            del left[machine][: pod.gpus]
        return found


MAKE: Final[Mapping[str, Callable[[], QueuePolicy]]] = {
    "first-fit": lambda: _InOrder(lambda fitting, _: fitting[0], is_gang=True),
    "best-fit": lambda: _InOrder(lambda fitting, left: min(fitting, key=left.__getitem__), is_gang=True),
    "kube-scheduler": lambda: _InOrder(lambda fitting, left: max(fitting, key=left.__getitem__), is_gang=False),
}
"""By name; of equal machines the first one is taken."""
