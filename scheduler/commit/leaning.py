"""
In which order units that lean on each other's pods begin: each on what has begun before it, wherever that can be.

Pods with the same labels on the same node do the same for others, and are one `Kind`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.cluster import Unit
from solver.domain import PodId


@dataclass(slots=True, eq=False)
class Kind:
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
    kinds: frozenset[Kind]
    wanted: tuple[tuple[Kind, ...], ...]

    @property
    def seeds_itself(self) -> bool:
        """Whether its own pods would do for each of them."""
        return all(not self.kinds.isdisjoint(each) for each in self.wanted)

    def found(self) -> Iterator[PodId | None]:
        """Give for each of its pods that has to be with another one that has begun; None where none has."""
        for kinds in self.wanted:
            yield next((key for kind in kinds for key in kind.begun if key not in self.own), None)


def first(left: Sequence[Leaning]) -> Leaning:
    """
    Give the unit that begins of some that all lean on each other: one that nobody outside of its own circle holds up.

    In a circle one comes first whose own pods do for it, and then the first in their order.
    """
    holders: defaultdict[Kind, set[int]] = defaultdict(set)
    shapes: dict[tuple[frozenset[Kind], tuple[tuple[Kind, ...], ...]], int] = {}
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
