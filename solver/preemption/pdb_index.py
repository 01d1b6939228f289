"""Which PodDisruptionBudgets count a pod: evaluated once in a decision, for all pods of a namespace together."""

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final

from solver.domain import Pod, PodDisruptionBudget, Snapshot
from solver.rules.node_fit.label_index import LabelIndex, positions_of

MOST_REQUIREMENTS: Final = 5_000
"""Requirements and values of all budgets of a namespace; with more of them none of its pods may be evicted."""

Labels = tuple[tuple[str, str], ...]
_Over = dict[Labels, tuple[int, ...]]
"""By labels, the positions of the budgets that select the pods; several positions mean that no pod may be evicted."""


class PdbIndex:
    """The PodDisruptionBudgets of each pod. Once the time is up, budgets not evaluated yet forbid every eviction."""

    def __init__(self, snapshot: Snapshot, stop: Callable[[], bool] = lambda: False) -> None:
        """Evaluate nothing yet; a budget keeps its position, however many evictions it still allows."""
        self._snapshot = snapshot
        self._stop = stop
        self._known: dict[str, _Over] = {}
        self._by_namespace: defaultdict[str, list[tuple[int, PodDisruptionBudget]]] = defaultdict(list)
        for position, budget in enumerate(snapshot.budgets):
            self._by_namespace[budget.namespace].append((position, budget))
        self._labels: dict[str, dict[Labels, None]] | None = None
        self._lengths: dict[str, int] = {}

    def over(self, pod: Pod) -> tuple[int, ...]:
        """
        Return the positions of the budgets that select a pod, two at most: with two the pod cannot be evicted.

        A stale budget grants no eviction and is listed twice. So is the first budget of a namespace that has more
        requirements than are evaluated.
        """
        namespace = pod.id.namespace
        if namespace not in self._by_namespace:
            return ()
        if namespace not in self._known:
            self._known[namespace] = self._found(namespace, self._labels_of(namespace))
        known = self._known[namespace]
        if pod.labels not in known:
            known |= self._found(namespace, (pod.labels,))
        return known[pod.labels]

    def are_too_long(self, namespace: str) -> bool:
        """Whether the budgets of a namespace have more requirements than are evaluated."""
        if namespace not in self._lengths:
            selectors = (budget.selector for _, budget in self._by_namespace.get(namespace, ()))
            rows = (row for selector in selectors if selector is not None for row in selector.requirements)
            self._lengths[namespace] = sum(1 + len(row.values) for row in rows)
        return self._lengths[namespace] > MOST_REQUIREMENTS

    def _labels_of(self, namespace: str) -> Collection[Labels]:
        """Return the distinct label sets of the pods of a namespace."""
        if self._labels is None:
            self._labels = {each: {} for each in self._by_namespace}
            for pod in self._snapshot.pods:
                if pod.id.namespace in self._labels:
                    self._labels[pod.id.namespace][pod.labels] = None
        return self._labels[namespace]

    def _found(self, namespace: str, labels: Collection[Labels]) -> _Over:
        budgets = self._by_namespace[namespace]
        if self.are_too_long(namespace) or self._stop():
            return dict.fromkeys(labels, (budgets[0][0],) * 2)
        index = LabelIndex([dict(each) for each in labels])
        found: list[list[int]] = [[] for _ in labels]
        once = several = 0
        for position, budget in budgets:
            selected = index.selected(budget.selector) & ~several if budget.selector is not None else 0
            for number in positions_of(selected, len(labels)) if selected else ():
                found[number] += [position] * (2 if budget.is_stale else 1)
            several |= selected if budget.is_stale else selected & once
            once |= selected
        return dict(zip(labels, map(tuple, found), strict=True))
