"""
Levels of the objective that count placed pods: strictly by priority; of one, those within guarantees and overdue first.

By default pods count. Where the policy counts devices, a tier has three levels: devices of placed pods; of equally many
devices, those that larger pods ask for (a pod of eight before eight of one); then pods, which are left without devices.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from solver.domain import Policy

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


class CountedClass(NamedTuple):
    """
    A class of pods as these levels see it; `devices` are those that one pod asks for.

    `is_guaranteed` says whether its pods count within the guarantee of their quota.
    """

    number: int
    family: int
    tier: Tier
    devices: int
    is_guaranteed: bool = False


def placed_levels(policy: Policy, classes: Iterable[CountedClass]) -> tuple[PlacedLevel, ...]:
    """Return the levels, most important first."""
    classes = tuple(classes)
    if policy.sums_priorities:
        return (PlacedLevel("placed", {each.number: each.tier.priority for each in classes}),)
    found: dict[tuple[int, bool, bool], list[CountedClass]] = {}
    for each in classes:
        found.setdefault((each.tier.priority, False, each.tier.is_overdue), []).append(each)
        if each.is_guaranteed:
            found.setdefault((each.tier.priority, True, False), []).append(each)
    levels: list[PlacedLevel] = []
    for (priority, is_guaranteed, is_overdue), of_one in sorted(found.items(), reverse=True):
        if is_guaranteed:
            levels.append(PlacedLevel(f"placed:{priority}{GUARANTEED}", {each.number: 1 for each in of_one}))
        else:
            levels += _of_tier(policy, Tier(priority, is_overdue), of_one)
    return tuple(levels)


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
