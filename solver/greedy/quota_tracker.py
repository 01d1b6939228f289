"""What quotas leave while pods are placed: by key, as the ledger of a node counts it (`NodeLedger.quota`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from solver.arrays import Mask
from solver.problem.devices.layout import State
from solver.problem.problem import PodClass
from solver.rules.quotas.bound_resources import UNLIMITED, QuotaLimits


@dataclass(slots=True, eq=False)
class QuotaTracker:
    """
    What is left of every limit, and of those that count nodes the nodes in use.

    A class sees of each key the least that its limits leave, cut to what one of its pods counts at most. So classes see
    no change while enough is left. Of a key that counts nodes it sees `UNLIMITED` or nothing, node by node.
    """

    rules: QuotaLimits
    left: list[int]
    nodes: list[frozenset[int]]

    @classmethod
    def of(cls, rules: QuotaLimits) -> "QuotaTracker":
        """Start with nothing placed."""
        return cls(rules, [each.left for each in rules.limits], [each.nodes for each in rules.limits])

    def state(self, pod_class: PodClass, node: int = -1) -> State:
        """Return what is left for a pod by key, on a node or (-1) on one that no quota uses yet; () without limits."""
        numbers = self.rules.of_class.get(pod_class.index, ())
        if not numbers:
            return ()
        found = [UNLIMITED] * len(self.rules.keys)
        for number in numbers:
            limit = self.rules.limits[number]
            if not limit.counts_nodes:
                found[limit.position] = min(found[limit.position], self.left[number])
            elif self.left[number] <= 0 and node not in self.nodes[number]:
                found[limit.position] = 0
        most = self.rules.most[pod_class.index]
        return tuple(
            min(left, most[position]) if left < UNLIMITED else UNLIMITED for position, left in enumerate(found)
        )

    def variants(self, pod_class: PodClass, node_count: int) -> Iterator[tuple[State, Mask | None]]:
        """Yield what is left for a pod of a class with the nodes where that is so; None for all nodes."""
        base = self.state(pod_class)
        open_nodes: dict[int, Mask] = {}
        for number in self.rules.of_class.get(pod_class.index, ()):
            limit = self.rules.limits[number]
            if limit.counts_nodes and self.left[number] <= 0:
                used = np.zeros(node_count, dtype=np.bool_)
                used[list(self.nodes[number])] = True
                known = open_nodes.get(limit.position)
                open_nodes[limit.position] = used if known is None else known & used
        if not open_nodes:
            yield base, None
            return
        for choice in product((False, True), repeat=len(open_nodes)):
            state, where = list(base), np.ones(node_count, dtype=np.bool_)
            for (position, used), is_open in zip(open_nodes.items(), choice, strict=True):
                state[position] = UNLIMITED if is_open else 0
                where &= used if is_open else ~used
            if where.any():
                yield tuple(state), where

    def key(self, pod_class: PodClass) -> State:
        """Return what ratings of nodes depend on, apart from the nodes themselves."""
        numbers = self.rules.of_class.get(pod_class.index, ())
        return (*self.state(pod_class), *(int(self.left[number] > 0) for number in numbers))

    def take(self, pod_class: PodClass, node: int, before: State, after: State) -> None:
        """Count a pod on a node, by what was left for it before and after it was served."""
        for number in self.rules.of_class.get(pod_class.index, ()):
            limit = self.rules.limits[number]
            taken = before[limit.position] - after[limit.position]
            if not limit.counts_nodes:
                self.left[number] -= taken
            elif taken and node not in self.nodes[number]:
                self.left[number] -= 1
                self.nodes[number] |= {node}

    def copy(self) -> "QuotaTracker":
        """Copy what is left."""
        return QuotaTracker(self.rules, list(self.left), list(self.nodes))
