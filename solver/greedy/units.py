"""
Units of the greedy: single pods, and gangs, which are placed whole or not at all.

A gang is tried in one domain after the other, those with the fewest open nodes first, and undone where too few of its
pods fit; preferred levels are tried as if they were required, then one less of them, from the last.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from solver.arrays import Amounts, Mask
from solver.greedy.placement_state import Tracker
from solver.greedy.quota_tracker import QuotaTracker
from solver.problem.costs.cost_model import CostTracker
from solver.problem.devices.layout import State
from solver.problem.node_arrays import pods_that_fit
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.gang_rules import DomainTuple, GangRule, TopologyLevel
from solver.solution import SharedChoice

Family = tuple[PodClass, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlacementUnit:
    """Pods (by family, one entry per pod) that are placed together: of one gang, or a single one."""

    families: tuple[Family, ...]
    rule: GangRule | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """What a run has left and chosen at some moment."""

    free: dict[str, Amounts]
    wide: State
    condition_of: npt.NDArray[np.int64]
    anchors: dict[int, Mask]
    trackers: list[Tracker]
    quotas: QuotaTracker
    cost_trackers: tuple[CostTracker, CostTracker]
    choices: int
    shared: dict[int, SharedChoice]


class Placer(Protocol):
    """What places single pods, and can go back to where it was."""

    problem: Problem

    def check_time(self) -> bool:
        """Note and return whether time has ended: no other domain is tried then."""

    def place(self, family: Family, within: Mapping[int, Mask]) -> bool:
        """Place one pod on nodes that `within` leaves its class, if it fits; return whether it did."""

    def open_nodes(self, pod_class: PodClass) -> Mask:
        """Nodes with room for a pod of a class, devices apart."""

    def free(self, resource: str) -> Amounts:
        """What nodes have left of a resource."""

    def save(self) -> Saved:
        """Remember where it is."""

    def restore(self, saved: Saved) -> None:
        """Go back; what was saved can be gone back to again."""


class GangFit(NamedTuple):
    """How many pods of a gang fit, in which domains of which levels."""

    pods: int
    levels: tuple[TopologyLevel, ...]
    row: DomainTuple


def units(problem: Problem, entries: Sequence[Family]) -> list[PlacementUnit]:
    """Bring the pods of each gang together, where the first of them stands."""
    rule_of = {index: number for number, rule in enumerate(problem.rules.gangs) for index in rule.classes}
    if not rule_of:
        return [PlacementUnit((family,)) for family in entries]
    members: dict[int, list[Family]] = {}
    order: list[tuple[int, Family]] = []
    for family in entries:
        number = rule_of.get(family[0].index, -1)
        if number < 0 or number not in members:
            order.append((number, family))
        if number >= 0:
            members.setdefault(number, []).append(family)
    return [
        PlacementUnit((family,)) if number < 0 else PlacementUnit(tuple(members[number]), problem.rules.gangs[number])
        for number, family in order
    ]


def place(placer: Placer, unit: PlacementUnit) -> None:
    """Place a unit, or nothing of it."""
    if unit.rule is None:
        placer.place(unit.families[0], {})
        return
    saved = placer.save()
    best: GangFit | None = None
    for levels, row in _tries(placer, unit.rule):
        count = _place_in(placer, unit, unit.rule, levels, row)
        if count == len(unit.families):
            return
        placer.restore(saved)
        if count and count >= unit.rule.need and (best is None or count > best.pods):
            best = GangFit(count, levels, row)
        if placer.check_time():
            best = best or _largest_domain(placer, unit.rule)
            break
    if best is not None and _place_in(placer, unit, unit.rule, best.levels, best.row) < unit.rule.need:
        placer.restore(saved)


def _largest_domain(placer: Placer, rule: GangRule) -> GangFit | None:
    """Return the domain that may have room for most pods of a gang, if there is no time to try the others."""
    count, row = max(_possible(placer, rule, rule.required), default=(0, ()))
    return GangFit(count, rule.required, row) if count >= max(1, rule.need) else None


def most(placer: Placer, unit: PlacementUnit, rule: GangRule) -> GangFit:
    """Find where most pods of a gang fit together; the placer is left as it was."""
    saved = placer.save()
    best = GangFit(0, (), ())
    found = _possible(placer, rule, rule.required)
    for most_pods, row in sorted(found, key=lambda each: -each[0])[: placer.problem.params.gang_counted_domains]:
        if most_pods <= best.pods or (best.row and placer.check_time()):
            break
        count = _place_in(placer, unit, rule, rule.required, row, with_minimum=False)
        placer.restore(saved)
        if count > best.pods or not best.row:
            best = GangFit(count, rule.required, row)
    return best


def fits_anywhere(placer: Placer, unit: PlacementUnit, rule: GangRule) -> bool:
    """Whether enough pods of a gang fit where no topology is asked of them; the placer is left as it was."""
    saved = placer.save()
    count = _place_in(placer, unit, rule, (), (), with_minimum=False)
    placer.restore(saved)
    return count >= rule.need


def _place_in(
    placer: Placer,
    unit: PlacementUnit,
    rule: GangRule,
    levels: tuple[TopologyLevel, ...],
    row: DomainTuple,
    *,
    with_minimum: bool = True,
) -> int:
    """Place what fits in some domains; return up as soon as too few are left."""
    masks = rule.inside(levels, row)
    within = {index: mask for index, mask in masks.items() if mask is not None}
    open_classes = {family: tuple(each for each in family if each.index in masks) for family in set(unit.families)}
    count, need = 0, rule.need if with_minimum else 0
    for position, family in enumerate(unit.families):
        if count + len(unit.families) - position < need:
            break
        count += bool(open_classes[family]) and placer.place(open_classes[family], within)
    return count


def _tries(placer: Placer, rule: GangRule) -> Iterator[tuple[tuple[TopologyLevel, ...], DomainTuple]]:
    left = placer.problem.params.gang_domains
    for count in range(len(rule.preferred), -1, -1):
        levels = (*rule.required, *rule.preferred[:count])
        for row in _rows(placer, rule, levels):
            if not left:
                return
            left -= 1
            yield levels, row


def _rows(placer: Placer, rule: GangRule, levels: tuple[TopologyLevel, ...]) -> list[DomainTuple]:
    """Domains that may have room for enough pods, the cheapest first."""
    rows = [row for count, row in _possible(placer, rule, levels) if count >= max(1, rule.need)]
    return sorted(rows, key=lambda row: _cost(placer.problem, rule, levels, row))


def _cost(problem: Problem, rule: GangRule, levels: tuple[TopologyLevel, ...], row: DomainTuple) -> int:
    """Return what the domains of a row cost a pod, by the first class for which they differ."""
    for index in rule.classes:
        inside = rule.mask(index, levels, row) if index in problem.costs.domains.of_class else None
        if inside is not None and inside.any():
            return problem.costs.domains.on(index, int(np.argmax(inside)))
    return 0


def _possible(placer: Placer, rule: GangRule, levels: tuple[TopologyLevel, ...]) -> list[tuple[int, DomainTuple]]:
    """Domains, each behind the number of pods that it may have room for."""
    if not levels:
        return [(rule.size, ())]
    classes = placer.problem.classes
    rooms = {index: _room(placer, classes[index]) for index in rule.classes}
    sums = {index: rule.sums(index, levels, room) for index, room in rooms.items()}
    found = []
    for row in rule.domain_tuples(levels, {index: room > 0 for index, room in rooms.items()}):
        per_family: Counter[int] = Counter()
        for index, by_row in sums.items():
            if by_row is not None:
                per_family[classes[index].family] += by_row.get(row, 0)
                continue
            inside = rule.mask(index, levels, row)
            room = rooms[index] if inside is None else rooms[index][inside]
            per_family[classes[index].family] += int(room.sum())
        found.append((sum(min(classes[each].size, count) for each, count in per_family.items()), row))
    return found


def _room(placer: Placer, pod_class: PodClass) -> Amounts:
    """Count the pods of a class that each open node has room for by itself, devices aside."""
    room = pods_that_fit(placer.free, pod_class.requests, pod_class.size)
    found: Amounts = np.where(placer.open_nodes(pod_class), room, 0)
    return found
