"""Pods that others lean on by their required affinity: who leans on a pod that is not bound yet waits for its binding.

Else the one would be bound, and the other, whose writes fail, would not be there. The units of a plan begin together,
in an order in which each leans on units before it: on those of earlier plans, and in a chain on the end of it first.
Where pods have to be with each other, the first of them waits for nobody. So none wait for each other, and each pod of
a unit waits for one other at most.

In which order units that lean on each other's pods begin: each on what has begun before it, wherever that can be.

Pods with the same labels on the same node do the same for others, and are one `Kind`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.cluster import Cluster, Unit
from solver.domain import Pod, PodId, PodTerm, Reason, ReasonCode, wording


@dataclass(slots=True, eq=False)
class InterchangeablePods:
    """Pods that are as good as each other for whoever leans on one of them; `begun` are those that have begun."""

    members: list[PodId] = field(default_factory=list)
    begun: list[PodId] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Leaning:
    """
    A unit, its own pods with their kinds, and for each that has to be with another the kinds that do for it.

    A pod for which only its own unit does, or nobody that is being committed, waits for nobody, and is left out.
    """

    unit: Unit
    own: frozenset[PodId]
    kinds: frozenset[InterchangeablePods]
    wanted: tuple[tuple[InterchangeablePods, ...], ...]

    @property
    def seeds_itself(self) -> bool:
        """Whether its own pods would do for each of them."""
        return all(not self.kinds.isdisjoint(each) for each in self.wanted)

    def found(self) -> Iterator[PodId | None]:
        """Give for each of its pods that has to be with another one that has begun; None where none has."""
        for kinds in self.wanted:
            yield next((key for kind in kinds for key in kind.begun if key not in self.own), None)


def _first(left: Sequence[Leaning]) -> Leaning:
    """
    Give the unit that begins of some that all lean on each other: one that nobody outside of its own circle holds up.

    In a circle one comes first whose own pods do for it, and then the first in their order.
    """
    holders: defaultdict[InterchangeablePods, set[int]] = defaultdict(set)
    shapes: dict[tuple[frozenset[InterchangeablePods], tuple[tuple[InterchangeablePods, ...], ...]], int] = {}
    shape_of = [shapes.setdefault((each.kinds, each.wanted), len(shapes)) for each in left]
    for (kinds, _), shape in shapes.items():
        for kind in kinds:
            holders[kind].add(shape)
    after = [set[int]().union(*(holders[kind] for each in wanted for kind in each)) for _, wanted in shapes]
    reach = [len(_reached(shape, after)) for shape in range(len(after))]
    order = range(len(left))
    return left[min(order, key=lambda number: (reach[shape_of[number]], not left[number].seeds_itself, number))]


def _reached(start: int, after: Sequence[Iterable[int]]) -> set[int]:
    reached, left = {start}, [start]
    while left:
        news = set(after[left.pop()]) - reached
        reached |= news
        left += news
    return reached


LeanedOn = tuple[tuple[PodId, asyncio.Event], ...]
"""Pods that a unit has to be with, each with the end of its commit."""


class _Begun(NamedTuple):
    """A unit, the end of its commit, and what it leans on."""

    unit: Unit
    settled: asyncio.Event
    leaned_on: LeanedOn


class Companions:
    """Knows which pods are being committed, in an order in which nobody leans on who comes later."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._under_way: Final[dict[PodId, asyncio.Event]] = {}
        self._begun: Final[dict[int, _Begun]] = {}

    def begin(self, units: Sequence[Unit]) -> None:
        """Note that the units of a plan, which are assumed, are committed from now on until they `end`."""
        pods = [each.pod for unit in units for each in unit.placements]
        has_leaning = any((pod := self._cluster.seen_pod(key)) is not None and pod.affinity for key in pods)
        picture = _Picture(self._cluster, (*self._under_way, *pods) if has_leaning else ())
        picture.begin(self._under_way)
        rest = [picture.leaning(unit) for unit in units]
        while rest:
            left = [each for each in rest if not self._begin_after(each, picture)]
            if left and len(left) == len(rest):
                seed = _first(left)
                self._begin(seed, picture)
                left = [each for each in left if each is not seed]
            rest = left

    def _begin_after(self, each: Leaning, picture: "_Picture") -> bool:
        """Begin a unit if somebody has begun for each of its pods."""
        is_next = None not in each.found()
        if is_next:
            self._begin(each, picture)
        return is_next

    def _begin(self, each: Leaning, picture: "_Picture") -> None:
        self._note(each.unit, [key for key in dict.fromkeys(each.found()) if key is not None])
        picture.begin(each.own)

    def _note(self, unit: Unit, leaned_on: Sequence[PodId]) -> None:
        settled = asyncio.Event()
        self._begun[id(unit)] = _Begun(unit, settled, tuple((key, self._under_way[key]) for key in leaned_on))
        for placement in unit.placements:
            self._under_way.setdefault(placement.pod, settled)

    def leaned_on(self, unit: Unit) -> LeanedOn:
        """Give the pods that a unit leans on, which has begun, with their ends."""
        return self._begun[id(unit)].leaned_on

    def end(self, unit: Unit) -> None:
        """Let those go on who lean on a unit, and forget it; nothing happens where it has ended already."""
        begun = self._begun.pop(id(unit), None)
        if begun is None:
            return
        begun.settled.set()
        for placement in unit.placements:
            if self._under_way.get(placement.pod) is begun.settled:
                del self._under_way[placement.pod]

    async def wait(self, leaned_on: LeanedOn, reader: str) -> tuple[Reason, ...]:
        """Wait for the pods that a unit leans on; say to a namespace which of them did not get to their nodes."""
        for _, settled in leaned_on:
            await settled.wait()
        if leaned_on:
            await asyncio.sleep(0)  # whoever commits them forgets first what came to nothing
        return tuple(
            Reason(
                code=ReasonCode.CONFLICT,
                message=f"{wording.seen(key, reader)}, which it has to be with, was not bound after all",
            )
            for key, _ in leaned_on
            if (pod := self._cluster.pod(key)) is None or not pod.node_name
        )


class _Picture:
    """The pods that are being committed, or begin to be, by what they do for others."""

    def __init__(self, cluster: Cluster, keys: Iterable[PodId]) -> None:
        self._cluster: Final = cluster
        self._kind_of: Final[dict[PodId, InterchangeablePods]] = {}
        self._known: Final[dict[tuple[tuple[PodTerm, ...], str], tuple[InterchangeablePods, ...]]] = {}
        kinds: dict[object, InterchangeablePods] = {}
        for key in dict.fromkeys(keys):
            pod = cluster.pod(key)
            if pod is not None:
                kind = kinds.setdefault((key.namespace, pod.labels, pod.node_name), InterchangeablePods())
                kind.members.append(key)
                self._kind_of[key] = kind
        self._kinds: Final = tuple(kinds.values())

    def begin(self, keys: Iterable[PodId]) -> None:
        """Note that pods have begun."""
        for key in keys:
            if key in self._kind_of:
                self._kind_of[key].begun.append(key)

    def leaning(self, unit: Unit) -> Leaning:
        """Say on whom a unit leans."""
        own = frozenset(each.pod for each in unit.placements)
        kinds = frozenset(self._kind_of[key] for key in own if key in self._kind_of)
        return Leaning(unit, own, kinds, tuple(self._wanted(unit, own)))

    def _wanted(self, unit: Unit, own: frozenset[PodId]) -> Iterator[tuple[InterchangeablePods, ...]]:
        for placement in unit.placements:
            pod = self._cluster.seen_pod(placement.pod)
            if pod is None or not pod.affinity or self._cluster.has_affinity_match(pod, placement.node, own):
                continue
            kinds = self._companions(pod, placement.node)
            if any(key not in own for kind in kinds for key in kind.members):
                yield kinds

    def _companions(self, pod: Pod, node: str) -> tuple[InterchangeablePods, ...]:
        """Give the kinds of pods of which one is enough for a pod on a node."""
        asked = (pod.affinity, node)
        if asked not in self._known:
            does = (kind for kind in self._kinds if self._cluster.satisfies_affinity(kind.members[0], pod, node))
            self._known[asked] = tuple(does)
        return self._known[asked]
