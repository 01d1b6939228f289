"""Levels of the objective that count placed pods: by priority, and within one those of guarantees and overdue ones."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

GUARANTEED: Final = ":guaranteed"
"""Ends the name of a level that counts the pods within guarantees, before all of their priority."""


class PlacedLevel(NamedTuple):
    """A level of the objective that counts placed pods: its name, and what one pod of each class adds to it."""

    name: str
    worth: Mapping[int, int]


class Tier(NamedTuple):
    """Pods of one rank in queue order: by priority, and within a priority the overdue ones first."""

    priority: int
    is_overdue: bool

    def __str__(self) -> str:
        """Name the tier as levels of the objective do."""
        return f"{self.priority}:overdue" if self.is_overdue else str(self.priority)


class Ranked(Protocol):
    """What decides the levels of a class of pods."""

    @property
    def index(self) -> int:
        """The number of the class."""

    @property
    def priority(self) -> int:
        """The priority of its pods."""

    @property
    def is_overdue(self) -> bool:
        """Whether its pods were passed over for too long."""

    @property
    def guarantee(self) -> int:
        """The quota within whose guarantee its pods count, -1 where there is none."""


def placed_levels(classes: Iterable[Ranked]) -> tuple[PlacedLevel, ...]:
    """Return the levels of classes, the most important first: pods within guarantees go before others of a priority."""
    found: dict[tuple[int, bool, bool], dict[int, int]] = {}
    for each in classes:
        found.setdefault((each.priority, False, each.is_overdue), {})[each.index] = 1
        if each.guarantee >= 0:
            found.setdefault((each.priority, True, False), {})[each.index] = 1
    return tuple(
        PlacedLevel(f"placed:{priority}{GUARANTEED}" if within else f"placed:{Tier(priority, is_overdue)}", found[key])
        for key in sorted(found, reverse=True)
        for priority, within, is_overdue in (key,)
    )
