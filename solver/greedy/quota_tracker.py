"""What quotas leave while pods are placed: by key, as the ledger of a node counts it (`NodeLedger.quota`)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.problem.devices.layout import State
from solver.problem.problem import PodClass
from solver.rules.quotas.bound_resources import UNLIMITED, QuotaLimits


class _Bound(NamedTuple):
    """
    The limits of a class, as pairs of limit and position of its key; those that count nodes apart.

    `start` is by key what one of its pods counts at most, where a limit counts units of it; else `UNLIMITED`.
    """

    units: tuple[tuple[int, int], ...]
    nodes: tuple[tuple[int, int], ...]
    start: State


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
    bounds: dict[int, _Bound] = field(default_factory=dict)
    """By class; copies share them."""
    twins: dict[int, int] = field(default_factory=dict)
    firsts: dict[tuple[object, bytes], int] = field(default_factory=dict)
    """The first of the classes that nodes are rated alike for, by class, and by what ratings depend on."""
    known: dict[int, State] = field(default_factory=dict)
    """The states of classes on nodes that no quota uses, since something was taken last."""

    @classmethod
    def of(cls, rules: QuotaLimits) -> "QuotaTracker":
        """Start with nothing placed."""
        return cls(rules, [each.left for each in rules.limits], [each.nodes for each in rules.limits])

    def state(self, pod_class: PodClass, node: int = -1) -> State:
        """Return what is left for a pod by key, on a node or (-1) on one that no quota uses yet; () without limits."""
        base = self.known.get(pod_class.index)
        if base is None:
            base = self.known[pod_class.index] = self._base(pod_class)
        if node < 0 or not self.rules.count_nodes:
            return base
        bound = self._bound(pod_class)
        if bound is None or not bound.nodes:
            return base
        opened = list(base)
        for position in {position for _, position in bound.nodes}:
            of_key = (number for number, at in bound.nodes if at == position)
            is_open = all(self.left[number] > 0 or node in self.nodes[number] for number in of_key)
            opened[position] = UNLIMITED if is_open else 0
        return tuple(opened)

    def _base(self, pod_class: PodClass) -> State:
        bound = self._bound(pod_class)
        if bound is None:
            return ()
        found = list(bound.start)
        for number, position in bound.units:
            found[position] = min(found[position], self.left[number])
        for number, position in bound.nodes:
            found[position] = 0 if self.left[number] <= 0 else found[position]
        return tuple(found)

    def _bound(self, pod_class: PodClass) -> _Bound | None:
        """Return the limits of a class, None where it has none."""
        known = self.bounds.get(pod_class.index)
        if known is None:
            numbers = self.rules.of_class.get(pod_class.index, ())
            if not numbers:
                return None
            pairs = [(number, self.rules.limits[number].position) for number in numbers]
            nodes = tuple(pair for pair in pairs if self.rules.limits[pair[0]].counts_nodes)
            units = tuple(pair for pair in pairs if pair not in nodes)
            limited, most = {position for _, position in units}, self.rules.most[pod_class.index]
            start = tuple(each if position in limited else UNLIMITED for position, each in enumerate(most))
            known = self.bounds[pod_class.index] = _Bound(units, nodes, start)
        return known

    def variants(self, pod_class: PodClass, node_count: int) -> Iterable[tuple[State, Mask | None]]:
        """Return what is left for a pod of a class with the nodes where that is so; None for all nodes."""
        if self.rules.count_nodes:
            return self._by_nodes(pod_class, node_count)
        return ((self.state(pod_class), None),)

    def _by_nodes(self, pod_class: PodClass, node_count: int) -> Iterator[tuple[State, Mask | None]]:
        base, bound = self.state(pod_class), self._bound(pod_class)
        open_nodes: dict[int, Mask] = {}
        for number, position in bound.nodes if bound is not None else ():
            if self.left[number] <= 0:
                used = np.zeros(node_count, dtype=np.bool_)
                used[list(self.nodes[number])] = True
                known = open_nodes.get(position)
                open_nodes[position] = used if known is None else known & used
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

    def key(self, pod_class: PodClass) -> tuple[int, State]:
        """
        Return what ratings of nodes depend on, apart from the nodes themselves: which class, and what is left for it.

        Of classes that differ in their quotas alone it is the first one. Where nodes count, each class has its own.
        """
        twin = self.twins.get(pod_class.index)
        if twin is None:
            bound, twin = self._bound(pod_class), pod_class.index
            if bound is None or not bound.nodes:
                twin = self.firsts.setdefault((pod_class.requests, pod_class.verdicts.allowed.tobytes()), twin)
            self.twins[pod_class.index] = twin
        if not self.rules.count_nodes:
            return twin, self.state(pod_class)
        bound = self._bound(pod_class)
        opened = () if bound is None else (int(self.left[number] > 0) for number, _ in bound.nodes)
        return twin, (*self.state(pod_class), *opened)

    def take(self, pod_class: PodClass, node: int, before: State, after: State) -> None:
        """Count a pod on a node, by what was left for it before and after it was served."""
        bound, is_seen = self._bound(pod_class), False
        for number, position in bound.units if bound is not None else ():
            self.left[number] -= before[position] - after[position]
            is_seen |= self.left[number] < self.rules.enough[number]
        for number, position in bound.nodes if bound is not None else ():
            if before[position] != after[position] and node not in self.nodes[number]:
                self.left[number] -= 1
                self.nodes[number] |= {node}
                is_seen |= self.left[number] <= 0
        if is_seen:
            self.known.clear()

    def copy(self) -> "QuotaTracker":
        """Copy what is left."""
        return QuotaTracker(self.rules, list(self.left), list(self.nodes), self.bounds, self.twins, self.firsts)
