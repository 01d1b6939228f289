"""
Pods that can be taken, by namespace: new ones, and those that were tried before.

The order is that of their ranks as long as all of them fit into a batch. Where more wait than it may have, the
namespaces of one priority take turns, so that none of them fills a batch while others wait. A namespace whose pods find
no place has few of them in a batch: pods that fit nowhere cost as much as others, and retried ones every time.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from scheduler.queue.indexed_heap import IndexedHeap, SortKey

FEWEST_RETRIED: Final = 16
"""Kinds of retried pods of one namespace in a batch, at least: some 20 ms of a decision."""
FEWEST_NEW: Final = 32
"""New pods of one namespace in a batch, at least."""
_NAMESPACES: Final = 4
"""In all a batch has at least as many as are the least of so many namespaces."""
_MANY: Final = 1 << 30
"""As many as there are."""
_ALL: Final = ""
"""Stands for all namespaces: none is called so."""


class AdaptiveQuotas:
    """
    How many new pods, or retried ones, a batch may have, by namespace and in all.

    As many as there are, until many are tried and more fail than are placed: then half as many, and so on. The number
    doubles whenever more are placed than fail. Equal pods, which wait in one crowd, cost about as much as one of them
    and count as one.
    """

    def __init__(self, fewest: int) -> None:
        self._fewest: Final = fewest
        self._most: Final[dict[str, int]] = {}
        self._placed: Final[dict[object, str]] = {}
        self._failed: Final[dict[object, str]] = {}

    def most(self, namespace: str = _ALL) -> int:
        """Give the number for one namespace, or for all together."""
        return self._most.get(namespace, _MANY)

    def placed(self, namespace: str, kind: object) -> None:
        """Note that a pod was placed; its equals are of the same kind."""
        self._placed[kind] = namespace

    def failed(self, namespace: str, kind: object) -> None:
        """Note that a pod found no place."""
        self._failed[kind] = namespace

    def adapt(self, limit: int) -> None:
        """Draw the conclusions before the next batch, of so many pods at most."""
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
    """The lines, one for the new pods of each namespace and one for its retried ones."""

    def __init__(self) -> None:
        self._lines: Final[tuple[dict[str, IndexedHeap[SortKey]], dict[str, IndexedHeap[SortKey]]]] = ({}, {})

    def __bool__(self) -> bool:
        """Whether a pod can be taken."""
        return any(any(lines.values()) for lines in self._lines)

    def line(self, namespace: str, *, is_retried: bool) -> IndexedHeap[SortKey]:
        """Give the line for a pod."""
        return self._lines[is_retried].setdefault(namespace, IndexedHeap())

    def turns(
        self, limit: int, quotas: tuple[AdaptiveQuotas, AdaptiveQuotas], before: "PopOrder | None" = None
    ) -> "PopOrder":
        """
        Begin a batch of at most so many pods, after another one; namespaces without a pod are dropped.

        `quotas` are those of new pods and of retried ones.
        """
        for lines in self._lines:
            for namespace in [namespace for namespace, line in lines.items() if not line]:
                del lines[namespace]
        return PopOrder(self._lines, limit, quotas, before.taken() if before is not None else {})


class _Head(NamedTuple):
    """The first pod of a line, after how many others of its namespace: what orders the lines."""

    negative_priority: int
    taken: int
    rank: SortKey
    namespace: str


class PopOrder:
    """
    The order in which one batch takes pods. What it gives is taken out of its line before the next is asked for.

    What a namespace took with the batch before counts: a gang that fills a batch has the next one go to others.
    """

    def __init__(
        self,
        lines: tuple[dict[str, IndexedHeap[SortKey]], dict[str, IndexedHeap[SortKey]]],
        limit: int,
        quotas: tuple[AdaptiveQuotas, AdaptiveQuotas],
        before: Mapping[str, int],
    ) -> None:
        self._lines: Final = lines
        counts = [sum(len(line) for line in each.values()) for each in lines]
        self._is_crowded: Final = sum(counts) > limit or any(
            count > each.most() for count, each in zip(counts, quotas, strict=True)
        )
        self._quotas: Final = quotas
        self._taken: Final[Counter[str]] = Counter(before)
        self._before: Final = before
        self._kinds_taken: Final[tuple[Counter[str], Counter[str]]] = (Counter(), Counter())
        self._kinds: Final[set[int]] = set()
        self._heaps: Final[tuple[list[_Head], list[_Head]]] = (self._heads(lines[0]), self._heads(lines[1]))
        self._least: int | None = None

    def taken(self) -> Mapping[str, int]:
        """Count the pods that this batch has taken, by namespace."""
        return self._taken - Counter(self._before)

    def keep_for(self, priority: int) -> None:
        """Take no pod of a lower priority, because it is open what those of this one need."""
        self._least = priority if self._least is None else max(self._least, priority)

    def is_over(self, priority: int) -> bool:
        """Whether the batch has an end before pods of a priority."""
        return self._least is not None and priority < self._least

    def note(self, namespace: str, kind: object, *, is_retried: bool) -> None:
        """Count a pod that is taken, and each kind once."""
        self._taken[namespace] += 1
        if id(kind) not in self._kinds:
            self._kinds.add(id(kind))
            self._kinds_taken[is_retried].update((namespace, _ALL))

    def first(self, *, is_retried: bool) -> _Head | None:
        """Give the first new pod, or the first retried one, as far as the batch may have one more of these."""
        heap, lines = self._heaps[is_retried], self._lines[is_retried]
        while heap:
            head = self._head(heap[0].namespace, lines[heap[0].namespace])
            if head is None:
                heappop(heap)
            elif self._is_full(head.namespace, is_retried=is_retried):
                self.keep_for(-head.negative_priority)
                heappop(heap)
            elif head == heap[0]:
                return head
            else:
                heapreplace(heap, head)
        return None

    def _is_full(self, namespace: str, *, is_retried: bool) -> bool:
        taken, quotas = self._kinds_taken[is_retried], self._quotas[is_retried]
        return taken[namespace] >= quotas.most(namespace) or taken[_ALL] >= quotas.most()

    def _heads(self, lines: dict[str, IndexedHeap[SortKey]]) -> list[_Head]:
        heads = [head for namespace, line in lines.items() if (head := self._head(namespace, line)) is not None]
        heapify(heads)
        return heads

    def _head(self, namespace: str, line: IndexedHeap[SortKey]) -> _Head | None:
        rank = line.head()
        if rank is None:
            return None
        return _Head(rank.negative_priority, self._taken[namespace] if self._is_crowded else 0, rank, namespace)
