"""
Parts of a batch: pods that see the same room kept for others, by nominations and by holds (DeviceHold).

The room that a nominated pod or a hold keeps is taken for pods of the same or a lower priority, and free for others. So
pods between which such a priority lies are decided one after the other.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import Batch, DeviceHold, GangId, MatcherIndex, Pod, PodId


class _RoomGroup(NamedTuple):
    """Units with equal groups see the same room; units with room of their own are groups by their priorities."""

    nominated: int
    """Nominated pods of the same or a higher priority, without the unit's own."""
    holds: int
    """Priorities of holds that are the same or higher."""
    own: str
    """The first nominated pod of the unit itself, empty without one."""
    seated: int | None
    """The priority of a unit for a pod of which room is held; None for others."""


def split_by_held_room(batch: Batch, nominated: Sequence[Pod], holds: Sequence[DeviceHold]) -> Iterator[Batch]:
    """
    Split a batch into parts that must respect the same nominated pods and holds, highest priority first.

    As in kube-scheduler, a pod may not use the room of nominated pods of the same or a higher priority. A nominated pod
    (or its gang) is a separate part, before others of its priority: it uses the room, or keeps it. So are all pods of a
    priority for which room is held. Gangs stay whole; where no room is kept the batch is not split.
    """
    if not (nominated or holds) or not batch.pods:
        yield batch
        return
    units: defaultdict[GangId | PodId, list[int]] = defaultdict(list)
    levelled = batch.levelled().pods
    for position, pod in enumerate(levelled):
        units[pod.id if pod.gang is None else pod.gang].append(position)
    kept = _KeptRoom(nominated, holds)
    rows = [
        (kept.group(pods), max(pod.priority for pod in pods), positions)
        for positions in units.values()
        for pods in ([levelled[position] for position in positions],)
    ]
    rows.sort(key=lambda row: (-row[1], not row[0].own, row[0].seated is None))
    for _, group in groupby(rows, key=lambda row: row[0]):
        chosen = sorted(position for _, _, positions in group for position in positions)
        yield replace(batch, pods=tuple(batch.pods[position] for position in chosen))


class _KeptRoom:
    """Which room is kept at which priorities, and which pods have some of it."""

    def __init__(self, nominated: Sequence[Pod], holds: Sequence[DeviceHold]) -> None:
        places = [(hold.priority, place.pods) for hold in holds for place in hold.open_places]
        self._waiting = {pod.id: pod.priority for pod in nominated}
        self._nominated = sorted(self._waiting.values())
        self._holds = sorted({priority for priority, _ in places})
        self._matchers = MatcherIndex({matcher for _, matcher in places})

    def group(self, unit: Sequence[Pod]) -> _RoomGroup:
        """Return the group of a unit."""
        highest, lowest = max(pod.priority for pod in unit), min(pod.priority for pod in unit)
        own = [pod.id for pod in unit if pod.id in self._waiting]
        kept = len(self._nominated) - bisect_left(self._nominated, highest)
        is_seated = any(self._matchers.selecting(pod) for pod in unit)
        return _RoomGroup(
            nominated=kept - sum(self._waiting[key] >= highest for key in own),
            holds=len(self._holds) - bisect_left(self._holds, lowest),
            own=str(min(own)) if own else "",
            seated=highest if is_seated else None,
        )
