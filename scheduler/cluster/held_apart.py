"""Which pods are decided together while room is held for others: those that see the same of it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, GangId, Pod, PodId


class _Side(NamedTuple):
    """The pods for which room is held from a unit, and the unit itself where it is one of them."""

    holders: int
    own: str


def split_held(batch: Batch, nominated: Sequence[Pod]) -> Iterator[Batch]:
    """
    Split a batch so that each part may be decided with the same room held, the most important first.

    A pod with a node nominated, or its gang, comes alone and before others of its priority: it takes what is held for
    it, or goes on holding it. Gangs stay whole; without nominations the batch stays as it is.
    """
    if not nominated or not batch.pods:
        yield batch
        return
    units: defaultdict[GangId | PodId, list[Pod]] = defaultdict(list)
    for pod in batch.levelled().pods:
        units[pod.id if pod.gang is None else pod.gang].append(pod)
    waiting = {pod.id: pod.priority for pod in nominated}
    priorities = sorted(waiting.values())
    rows = [(_side(unit, waiting, priorities), unit) for unit in units.values()]
    rows.sort(key=lambda row: (-_priority(row[1]), not row[0].own))
    for _, group in groupby(rows, key=lambda row: row[0]):
        chosen = {pod.id for _, unit in group for pod in unit}
        yield replace(batch, pods=tuple(pod for pod in batch.pods if pod.id in chosen))


def _side(unit: Sequence[Pod], waiting: dict[PodId, int], priorities: Sequence[int]) -> _Side:
    """Give the side of a unit; `priorities` are those of the pods with a node nominated, sorted."""
    priority = _priority(unit)
    own = [pod.id for pod in unit if pod.id in waiting]
    holders = len(priorities) - bisect_left(priorities, priority) - sum(waiting[key] >= priority for key in own)
    return _Side(holders, str(min(own)) if own else "")


def _priority(unit: Sequence[Pod]) -> int:
    return max(pod.priority for pod in unit)
