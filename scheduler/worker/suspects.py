"""
Which pod kills the solver: batches that ended its process twice come back in halves until one pod is alone.

Pure. In the meantime the greedy plan decides about them, so nobody else waits for the search for the guilty one.
"""

from collections.abc import Collection
from typing import Final

from solver.domain import Batch, Pod

_STRIKES: Final = 2
"""Deaths of the process with a batch of one size until that size is halved."""


def _whole(pods: list[Pod], size: int) -> list[Pod]:
    """Give the first pods, and the rest of the gangs that they are of: a gang is never decided in parts."""
    first = pods[:size]
    gangs = {pod.gang for pod in first if pod.gang is not None}
    return first + [pod for pod in pods[size:] if pod.gang in gangs]


def _is_one_gang(pods: tuple[Pod, ...]) -> bool:
    return pods[0].gang is not None and len({pod.gang for pod in pods}) == 1


class Suspects:
    """
    The pods that were in a batch with which the process ended, and how many of them may go together.

    Pods are known by uid. A pod is cleared as soon as the process survives a batch that it was in.
    """

    def __init__(self) -> None:
        self._most: Final[dict[str, int]] = {}
        self._strikes: Final[dict[str, int]] = {}
        self._guilty: Final[set[str]] = set()

    def divide(self, batch: Batch) -> tuple[Batch, ...]:
        """
        Split a batch: pods without suspicion together, then suspects in parts as large as they may be, in order.

        Pods that are known to be guilty form a last part, which `is_guilty` tells apart.
        """
        clean = tuple(pod for pod in batch.pods if pod.uid not in self._most and pod.uid not in self._guilty)
        parts = [Batch(pods=clean)] if clean else []
        suspects = [pod for pod in batch.pods if pod.uid in self._most]
        while suspects:
            size = min(self._most[pod.uid] for pod in suspects)
            part = _whole(suspects, size)
            parts.append(Batch(pods=tuple(part)))
            done = {pod.uid for pod in part}
            suspects = [pod for pod in suspects if pod.uid not in done]
        guilty = tuple(pod for pod in batch.pods if pod.uid in self._guilty)
        return (*parts, Batch(pods=guilty)) if guilty else tuple(parts)

    def is_guilty(self, pod: Pod) -> bool:
        """Whether the process ended twice with this pod alone."""
        return pod.uid in self._guilty

    def accuse(self, batch: Batch) -> tuple[Pod, ...]:
        """Note that the process ended with this batch; give the pod that is guilty of it, once that is certain."""
        pods = tuple(pod for pod in batch.pods if pod.uid not in self._guilty)
        for pod in pods:
            self._strikes[pod.uid] = self._strikes.get(pod.uid, 0) + 1
            self._most[pod.uid] = min(len(pods), self._most.get(pod.uid, len(pods)))
        if not pods or any(self._strikes[pod.uid] < _STRIKES for pod in pods):
            return ()
        for pod in pods:
            self._strikes[pod.uid] = 0
            self._most[pod.uid] = max(1, len(pods) // 2)
        if len(pods) > 1 and not _is_one_gang(pods):
            return ()
        for pod in pods:
            self._guilty.add(pod.uid)
            del self._most[pod.uid]
        return pods

    def clear(self, batch: Batch) -> None:
        """Note that the process survived this batch."""
        for pod in batch.pods:
            self._most.pop(pod.uid, None)
            self._strikes.pop(pod.uid, None)

    def forget(self, uids: Collection[str]) -> None:
        """Drop pods that are gone, bound or changed."""
        for uid in uids:
            self._most.pop(uid, None)
            self._strikes.pop(uid, None)
            self._guilty.discard(uid)
