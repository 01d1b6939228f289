"""
The activeQ: pods that the next batches take, by namespace; new pods apart from retried ones.

Priorities are strict. While all active pods fit into a batch, it takes them in the order of the queue. Where more are
active than it may have, the namespaces of one priority get equal shares (round-robin). So none of them fills a batch
while others wait. A namespace whose pods fail has few of them in a batch: pods that fit nowhere cost as much as others,
and retried ones cost it every time.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from scheduler.queue.queued_pod import QueuedPod

FEWEST_RETRIED: Final = 16
"""Kinds of retried pods of one namespace in a batch, at least: some 20 ms of a decision."""
FEWEST_NEW: Final = 32
"""New pods of one namespace in a batch, at least."""
NEW_SHARE: Final = 4
"""Every fourth pod that a batch takes is a new one, where new pods and retried ones of one priority are active."""
_NAMESPACES: Final = 4
"""All namespaces together may have at least the least quotas of this number of namespaces."""
_UNLIMITED: Final = 1 << 30
_ALL: Final = ""
"""Stands for all namespaces: none has this name."""

Heaps = dict[str, IndexedHeap[SortKey]]


class AdaptiveQuotas:
    """
    How many pods a batch may have, by namespace and of all namespaces: of new pods, or of retried ones.

    There is no limit until many were tried and no more were placed than failed: then half as many, and so on. The limit
    doubles whenever more are placed than fail. Pods of one retry group cost about as much as one pod, and count as one.
    """

    def __init__(self, fewest: int) -> None:
        self._fewest: Final = fewest
        self._most: Final[dict[str, int]] = {}
        self._placed: Final[dict[object, str]] = {}
        self._failed: Final[dict[object, str]] = {}

    def most(self, namespace: str = _ALL) -> int:
        """Return the limit for one namespace, or for all together."""
        return self._most.get(namespace, _UNLIMITED)

    def placed(self, queued: QueuedPod) -> None:
        """Count a pod that was placed."""
        self._placed[queued.kind] = queued.pod.id.namespace

    def failed(self, queued: QueuedPod) -> None:
        """Count a pod that was not placed."""
        self._failed[queued.kind] = queued.pod.id.namespace

    def adapt(self, limit: int) -> None:
        """Adapt the limits to what came of the pods since the last call; a batch has `limit` pods at most."""
        all_placed, all_failed = (Counter(each.values()) for each in (self._placed, self._failed))
        for counted in (all_placed, all_failed):
            counted[_ALL] = counted.total()
        for namespace in all_placed.keys() | all_failed.keys():
            placed, failed = all_placed[namespace], all_failed[namespace]
            least = self._fewest if namespace else _NAMESPACES * self._fewest
            if placed <= failed and placed + failed <= least:
                continue  # so few cost little
            most = self.most(namespace) * 2 if placed > failed else max(least, (placed + failed) // 2)
            self._most[namespace] = most
            if most >= limit:
                del self._most[namespace]
        self._placed.clear()
        self._failed.clear()


class ActiveQueue:
    """The heaps, one for the new pods of each namespace and one for its retried pods, and their quotas."""

    def __init__(self) -> None:
        self._heaps: Final[tuple[Heaps, Heaps]] = ({}, {})
        self._quotas: Final = (AdaptiveQuotas(FEWEST_NEW), AdaptiveQuotas(FEWEST_RETRIED))
        self._last: PopOrder | None = None

    def __bool__(self) -> bool:
        """Whether a pod is active."""
        return any(any(heaps.values()) for heaps in self._heaps)

    def heap(self, namespace: str, *, is_retried: bool) -> IndexedHeap[SortKey]:
        """Return the heap for a pod."""
        return self._heaps[is_retried].setdefault(namespace, IndexedHeap())

    def quotas(self, queued: QueuedPod) -> AdaptiveQuotas:
        """Return the quotas that a pod counts for: those of new pods or of retried ones."""
        return self._quotas[queued.attempts > 0]

    def pop_order(self, limit: int) -> "PopOrder":
        """Begin a batch of at most `limit` pods; namespaces without a pod are dropped."""
        for quotas in self._quotas:
            quotas.adapt(limit)
        for heaps in self._heaps:
            for namespace in [namespace for namespace, heap in heaps.items() if not heap]:
                del heaps[namespace]
        before = self._last.taken() if self._last is not None else {}
        self._last = PopOrder(self._heaps, limit, self._quotas, before)
        return self._last


class _Head(NamedTuple):
    """The first pod of a namespace, after how many others of it: orders the namespaces."""

    negative_priority: int
    taken: int
    key: SortKey
    namespace: str


class PopOrder:
    """
    The order in which one batch takes pods. A pod has left its heap before the next one is asked for.

    The pods count that the batch before took of a namespace: after a gang that fills a batch it is the turn of others.
    """

    def __init__(
        self,
        heaps: tuple[Heaps, Heaps],
        limit: int,
        quotas: tuple[AdaptiveQuotas, AdaptiveQuotas],
        before: Mapping[str, int],
    ) -> None:
        counts = [sum(len(heap) for heap in each.values()) for each in heaps]
        self._is_shared: Final = sum(counts) > limit or any(
            count > each.most() for count, each in zip(counts, quotas, strict=True)
        )
        self._heaps: Final = heaps
        self._quotas: Final = quotas
        self._taken: Final[Counter[str]] = Counter(before)
        self._before: Final = before
        self._kinds_taken: Final[tuple[Counter[str], Counter[str]]] = (Counter(), Counter())
        self._kinds: Final[set[int]] = set()
        self._heads: Final[tuple[list[_Head], list[_Head]]] = (self._all_heads(heaps[0]), self._all_heads(heaps[1]))
        self._least_priority: int | None = None

    def taken(self) -> Mapping[str, int]:
        """Count the pods that this batch has taken, by namespace."""
        return self._taken - Counter(self._before)

    def stop_below(self, priority: int) -> None:
        """Take no pod of a lower priority: what pods of this one need is not known yet."""
        self._least_priority = priority if self._least_priority is None else max(self._least_priority, priority)

    def is_over(self, priority: int) -> bool:
        """Whether the batch takes no pods of a priority any more."""
        return self._least_priority is not None and priority < self._least_priority

    def count(self, queued: QueuedPod) -> None:
        """Count a pod that is taken; those of one kind count as one for the quotas."""
        namespace = queued.pod.id.namespace
        self._taken[namespace] += 1
        if id(queued.kind) not in self._kinds:
            self._kinds.add(id(queued.kind))
            self._kinds_taken[queued.attempts > 0].update((namespace, _ALL))

    def next(self, position: int) -> SortKey | None:
        """Return the pod to take as the one at this position: the first one, or every fourth time the first new one."""
        new, retried = self._first(is_retried=False), self._first(is_retried=True)
        first = min((head for head in (new, retried) if head is not None), default=None)
        is_turn_of_new = position % NEW_SHARE == NEW_SHARE - 1
        if is_turn_of_new and new and first and new.negative_priority == first.negative_priority:
            first = new
        return first.key if first is not None else None

    def _first(self, *, is_retried: bool) -> _Head | None:
        """Return the first new pod, or the first retried one, as far as the quotas allow one more of these."""
        heads, heaps = self._heads[is_retried], self._heaps[is_retried]
        while heads:
            head = self._head(heads[0].namespace, heaps[heads[0].namespace])
            if head is None:
                heappop(heads)
            elif self._is_full(head.namespace, is_retried=is_retried):
                self.stop_below(-head.negative_priority)
                heappop(heads)
            elif head == heads[0]:
                return head
            else:
                heapreplace(heads, head)
        return None

    def _is_full(self, namespace: str, *, is_retried: bool) -> bool:
        taken, quotas = self._kinds_taken[is_retried], self._quotas[is_retried]
        return taken[namespace] >= quotas.most(namespace) or taken[_ALL] >= quotas.most()

    def _all_heads(self, heaps: Heaps) -> list[_Head]:
        heads = [head for namespace, heap in heaps.items() if (head := self._head(namespace, heap)) is not None]
        heapify(heads)
        return heads

    def _head(self, namespace: str, heap: IndexedHeap[SortKey]) -> _Head | None:
        key = heap.head()
        if key is None:
            return None
        return _Head(key.negative_priority, self._taken[namespace] if self._is_shared else 0, key, namespace)
