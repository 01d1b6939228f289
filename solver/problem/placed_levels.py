"""
Levels of the objective that count placed pods: strictly by priority, the overdue ones of a priority first.

By default pods count. Where the policy counts devices, a tier has three levels: devices of placed pods; of equally many
devices, those that larger pods ask for (a pod of eight before eight of one); then pods, which are left without devices.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from solver.domain import Policy


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


class CountedClass(NamedTuple):
    """A class of pods as these levels see it; `devices` are those that one pod asks for."""

    number: int
    family: int
    tier: Tier
    devices: int


def placed_levels(policy: Policy, classes: Iterable[CountedClass]) -> tuple[PlacedLevel, ...]:
    """Return the levels, most important first."""
    classes = tuple(classes)
    if policy.sums_priorities:
        return (PlacedLevel("placed", {each.number: each.tier.priority for each in classes}),)
    found: dict[Tier, list[CountedClass]] = {}
    for each in classes:
        found.setdefault(each.tier, []).append(each)
    return tuple(level for tier in sorted(found, reverse=True) for level in _of_tier(policy, tier, found[tier]))


def _of_tier(policy: Policy, tier: Tier, classes: list[CountedClass]) -> Iterator[PlacedLevel]:
    if policy.counts_devices:
        most: dict[int, int] = {}
        for each in classes:  # the ways in which a pod can be served count alike
            most[each.family] = max(most.get(each.family, 0), each.devices)
        devices = {each.number: most[each.family] for each in classes if most[each.family]}
        if devices:
            yield PlacedLevel(f"placed-devices:{tier}", devices)
            yield PlacedLevel(f"larger-pods:{tier}", {index: count * count for index, count in devices.items()})
    yield PlacedLevel(f"placed:{tier}", {each.number: 1 for each in classes})
