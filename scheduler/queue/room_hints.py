"""Pods that are tried because of held room: it is held for them now, or what came free is; some of them at a time."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from scheduler.queue.pod_queues import PodQueues
from scheduler.queue.queued_pod import PodIdsByKey, PodState, QueuedPod
from scheduler.queue.queueing_hints import HINTED_BY_HELD
from solver.domain import OF_LABEL, MatchKey, Pod, PodId, PodMatcher, Seat, match_keys

_Looked = Iterator[QueuedPod | None]
"""Pods that are concerned, and None where one was looked at that is not."""


class RoomHints:
    """
    What is left to do for held room: a hold may have thousands of places, and be for thousands of pods.

    Pods are found by what places are for, not by a look at all of them.
    """

    def __init__(self, queues: PodQueues) -> None:
        self._queues: Final = queues
        self._pods: Final = _PodsByMatcher()
        self._freed: Final[dict[str, Seat]] = {}
        """Places that have all of what came free, by `Seat.id`, whose pods were not looked for yet."""
        self._left: Final[deque[tuple[_Looked, Callable[[QueuedPod, float], None]]]] = deque()

    def __bool__(self) -> bool:
        """Whether something is left to do."""
        return bool(self._freed or self._left)

    def add(self, pod: Pod) -> None:
        """Add a pod of the queue."""
        self._pods.add(pod)

    def discard(self, pod: Pod) -> None:
        """Remove a pod as it was when it was added."""
        self._pods.discard(pod)

    def replace(self, before: Pod, after: Pod) -> None:
        """Note another version of a pod."""
        if _terms(before) != _terms(after):
            self.discard(before)
            self.add(after)

    def held(self, matchers: Iterable[PodMatcher]) -> None:
        """Note that room is held for some pods now."""
        self._left.append((self._selected(tuple(dict.fromkeys(matchers))), self._retry))

    def freed(self, seats: Iterable[Seat]) -> None:
        """Note places that have all of what came free."""
        self._freed.update((seat.id, seat) for seat in seats)

    def follow(self, now: float, most: int) -> None:
        """Retry and hint pods; look at so many at most: the next calls do the rest."""
        if self._freed:
            self._left.append((self._heirs(tuple(self._freed.values())), self._hint))
            self._freed.clear()
        while self._left and most > 0:
            looked, act = self._left[0]
            found = list(islice(looked, most))
            if len(found) < most:
                self._left.popleft()
            most -= len(found)
            for queued in filter(None, found):
                act(queued, now)

    def _retry(self, queued: QueuedPod, now: float) -> None:
        """Retry a pod at once for which room is held now: what it failed at is no matter any more."""
        if queued.state is not PodState.GATED:
            self._queues.update(queued, queued.pod, now, is_own_write=False)

    def _hint(self, queued: QueuedPod, _: float) -> None:
        self._queues.hint(queued, HINTED_BY_HELD)

    def _heirs(self, seats: Collection[Seat]) -> _Looked:
        """Find the pods that places are for, and those of a higher priority, which may take held room."""
        lowest = min(seat.hold.priority for seat in seats)
        for pod in self._pods.above(lowest):
            yield self._queues.pods.get(pod)
        yield from self._selected(tuple(dict.fromkeys(seat.place.pods for seat in seats)))

    def _selected(self, matchers: Iterable[PodMatcher]) -> _Looked:
        for matcher in matchers:
            yield None  # a matcher without pods is work, too
            for pod in self._pods.like(matcher):
                queued = self._queues.pods.get(pod)
                yield queued if queued is not None and matcher.selects(queued.pod) else None


class _PodsByMatcher:
    """The pods of the queue by what matchers find them by, and by their priorities."""

    def __init__(self) -> None:
        self._by_uid: Final[dict[str, PodId]] = {}
        self._by_key: Final[PodIdsByKey[MatchKey]] = PodIdsByKey(_shared_keys)
        self._by_priority: Final[PodIdsByKey[int]] = PodIdsByKey(lambda pod: (pod.priority,))

    def add(self, pod: Pod) -> None:
        self._by_uid[pod.uid] = pod.id
        self._by_key.add(pod)
        self._by_priority.add(pod)

    def discard(self, pod: Pod) -> None:
        self._by_uid.pop(pod.uid, None)
        self._by_key.discard(pod)
        self._by_priority.discard(pod)

    def like(self, matcher: PodMatcher) -> Collection[PodId]:
        """Return those that a matcher may select: all where it has labels alone, as none of ours has."""
        if matcher.pod_uid:
            pod = self._by_uid.get(matcher.pod_uid)
            return () if pod is None else (pod,)
        return tuple(self._by_uid.values()) if matcher.key.kind == OF_LABEL else self._by_key.pods(matcher.key)

    def above(self, priority: int) -> Iterator[PodId]:
        """Return those of a higher priority."""
        for each in sorted(self._by_priority.keys(), reverse=True):
            yield from self._by_priority.pods(each) if each > priority else ()


def _terms(pod: Pod) -> tuple[object, ...]:
    """Return what a pod is found by, labels apart."""
    return pod.uid, pod.controller, pod.annotations, pod.priority


def _shared_keys(pod: Pod) -> tuple[MatchKey, ...]:
    """Return the keys that pods have in common, but for labels: they are many, and hardly a place is found by them."""
    return tuple(key for key in match_keys(pod) if key.kind in {"owner", "annotation"})
