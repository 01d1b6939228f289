"""
The nodes on which victims are searched if there are too many for one model: those with the cheapest victims.

A node is ranked by a lower bound on its victims' cost, which counts room and numbers of devices only.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.arrays import Amounts, Mask
from solver.domain import Pod
from solver.greedy import Greedy
from solver.preemption.victims import VictimUnit
from solver.problem.devices.inventory import Inventory
from solver.problem.node_arrays import PODS, Room
from solver.problem.problem import PodClass, Problem

MOST_NODES: Final = 64
"""Nodes searched together for each pod to place; the bound is part of what `Preemption.is_proven` means."""
_LIMIT: Final = 512
_DEVICES: Final = ""
"""The key of devices among the names of resources."""
_FAR: Final = 1 << 40
"""A priority above all others: all victims together do not make enough room."""

_Floats = npt.NDArray[np.float64]


class _Cost(NamedTuple):
    """Per node: the highest priority among the victims, their number, and the sum of their run times."""

    priority: Amounts
    number: Amounts
    seconds: Amounts


@dataclass(frozen=True, slots=True, eq=False)
class NodeRanking:
    """
    Victim units in rows, one for each of their nodes: sorted by node, and then the cheapest first.

    `amounts` are what a unit gives back on that node, by resource, and devices. An evicted unit gives nothing back.
    """

    victim: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]
    priority: Amounts
    count: Amounts
    seconds: Amounts
    amounts: dict[str, _Floats]

    @classmethod
    def of(cls, inventory: Inventory, victims: Sequence[VictimUnit], devices_of: Callable[[Pod], int]) -> "NodeRanking":
        """Sort victim units; `devices_of` says how many devices a pod holds."""
        rows: list[tuple[int, int, int, int, int]] = []
        kinds: dict[tuple[tuple[str, int], ...], int] = {}
        given: list[tuple[int, int, int]] = []
        for number, victim in enumerate(victims):
            rows_of: dict[int, int] = {}
            for pod in victim.pods:
                node = inventory.node_index.get(pod.node_name)
                if node is None:
                    continue
                row = rows_of.get(node)
                if row is None:
                    row = rows_of[node] = len(rows)
                    rows.append((number, node, victim.priority, len(victim.pods), victim.seconds))
                given.append((row, kinds.setdefault(pod.requests, len(kinds)), devices_of(pod)))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 5)
        order = np.lexsort((columns[:, 4], columns[:, 3], columns[:, 2], columns[:, 1]))
        amounts = {each: sums[order] for each, sums in _sums_by_row(given, tuple(kinds), len(rows)).items()}
        numbers, nodes, priorities, counts, seconds = (columns[order, column].copy() for column in range(5))
        return cls(numbers, nodes, priorities, counts, seconds, amounts)

    def without(self, evicted: Collection[int]) -> "NodeRanking":
        """Return the ranking in which the units with these numbers are evicted."""
        stays = ~np.isin(self.victim, list(evicted))
        amounts = {resource: column * stays for resource, column in self.amounts.items()}
        return replace(self, count=self.count * stays, seconds=self.seconds * stays, amounts=amounts)

    def nodes(self, problem: Problem, room: Room, free_devices: Amounts) -> tuple[list[int], bool]:
        """
        Return the nodes that may take the pods of a problem, the cheapest first, and whether these are all such nodes.

        The problem is without all victim units, `room` and `free_devices` are what is left beside them. The cost of a
        node is that of its cheapest units which make enough room: the highest priority, the number, the run times.
        """
        possible = np.zeros(problem.node_count, dtype=np.bool_)
        for each in problem.classes:
            possible |= each.verdicts.allowed & problem.available.room.fits(each.requests)
        most = min(_LIMIT, MOST_NODES * max(1, len(problem.batch.pods)))
        found = np.flatnonzero(possible)
        if len(found) <= 1:
            return found.tolist(), True
        best: _Cost | None = None
        served = Greedy.served(problem)
        for each in problem.classes:
            cost = self._cost(_wanted(problem, each), served[each.index], room, free_devices)
            best = cost if best is None else _better(best, cost)
        if best is None:
            return [], True
        order = np.lexsort((found, best.seconds[found], best.number[found], best.priority[found]))
        return found[order][:most].tolist(), len(found) <= most

    def _cost(self, wanted: dict[str, int], served: Mask, room: Room, free_devices: Amounts) -> _Cost:
        """Evict units on every node, the cheapest first, until nothing is missing."""
        count = len(served)
        enough = np.ones(len(self.node), dtype=np.bool_)
        lacks = np.zeros(count, dtype=np.bool_)
        for resource, amount in wanted.items():
            missing = amount - (free_devices if resource == _DEVICES else room.of(resource))
            lacks |= missing > 0
            if resource in self.amounts:
                enough &= self._running_sums(self.amounts[resource]) >= missing[self.node]
            else:
                enough &= missing[self.node] <= 0
        rows = np.flatnonzero(enough)
        nodes, first = np.unique(self.node[rows], return_index=True)
        priority, number, seconds = (np.full(count, value, dtype=np.int64) for value in (_FAR, 0, 0))
        at = rows[first]
        priority[nodes] = self.priority[at]
        number[nodes] = self._running_sums(self.count.astype(np.float64))[at].astype(np.int64)
        seconds[nodes] = self._running_sums(self.seconds.astype(np.float64))[at].astype(np.int64)
        priority[~lacks], number[~lacks], seconds[~lacks] = -_FAR, 0, 0
        priority[~served] = _FAR
        return _Cost(priority, number, seconds)

    def _running_sums(self, amounts: _Floats) -> _Floats:
        """Sum up along the rows of each node."""
        if not len(amounts):
            return amounts
        sums = np.cumsum(amounts)
        starts = np.flatnonzero(np.diff(self.node, prepend=-1))
        before = np.repeat(sums[starts] - amounts[starts], np.diff(np.append(starts, len(amounts))))
        return sums - before


def _sums_by_row(
    given: Sequence[tuple[int, int, int]], kinds: Sequence[tuple[tuple[str, int], ...]], count: int
) -> dict[str, _Floats]:
    """Sum up pods, devices and requests by row; `given` are (row, kind of requests, devices) of pods."""
    columns = np.array(given, dtype=np.int64).reshape(-1, 3)
    row, kind, devices = columns[:, 0], columns[:, 1], columns[:, 2]
    found: dict[str, _Floats] = {PODS: np.bincount(row, minlength=count).astype(np.float64)}
    found[_DEVICES] = np.bincount(row, weights=devices, minlength=count).astype(np.float64)
    asked = [dict(requests) for requests in kinds]
    for resource in dict.fromkeys(name for each in asked for name in each):
        weights = np.array([each.get(resource, 0) for each in asked], dtype=np.float64)
        found[resource] = np.bincount(row, weights=weights[kind], minlength=count).astype(np.float64)
    return found


def _better(one: _Cost, other: _Cost) -> _Cost:
    """Take the lower of two costs, node by node."""
    is_less = other.seconds < one.seconds
    for left, right in ((other.number, one.number), (other.priority, one.priority)):
        is_less = (left < right) | ((left == right) & is_less)
    return _Cost(*(np.where(is_less, new, old) for new, old in zip(other, one, strict=True)))


def _wanted(problem: Problem, pod_class: PodClass) -> dict[str, int]:
    """What a pod takes of a node, devices included."""
    asked = sum(
        part.copies
        * sum(max(ask.needed for ask in request) for request in problem.requests.components[part.component].requests)
        for part in pod_class.parts
    )
    wanted = {PODS: 1, **dict(pod_class.requests), _DEVICES: asked}
    return {resource: amount for resource, amount in wanted.items() if amount > 0}
