"""
Options of a component for the devices that nodes have left, where it has more options than are kept.

The options that are kept are the preferred ones, and all of them may need devices that are in use. So this searches
depth first, as kube-scheduler does, among the types of which devices are left, up to a number of steps.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Final

from solver.problem.devices.layout import DeviceLayout, DeviceType, NodeGroup, type_at
from solver.problem.devices.node_ledger import NodeLedger
from solver.problem.requests.component import Ask, Component, Masks, Option, Way
from solver.problem.requests.options import (
    MOST_OPTIONS,
    Cover,
    Narrowing,
    OptionTable,
    PayUnits,
    asks_of,
    bits,
    described,
)

_MOST_OPTIONS: Final = 1024
"""The most options, over all states of a group."""
_STEPS: Final = 16_384
"""The steps of the search, over all states of a group."""
_LEAST_STEPS: Final = 256
"""The steps for each of many states: 32 requests of 8 alternatives have an answer without backtracking."""


def are_complete(component: Component, found: tuple[Option, ...]) -> bool:
    """Whether `options.options` has surely found all options: no choice was beyond its limit."""
    return len(found) < MOST_OPTIONS and prod(len(row) for row in component.requests) <= MOST_OPTIONS


def remaining_options(
    component: Component, group: NodeGroup, layout: DeviceLayout, left: Collection[NodeLedger], pay: PayUnits
) -> tuple[Option, ...]:
    """Enumerate options for what nodes of a group have left, each once; nodes that are alike have one ledger."""
    table, found = OptionTable.of(component, group, layout), dict[Way, None]()
    types = [type_at(layout, group, each) for each in table.references]
    for each in left:
        steps = max(_LEAST_STEPS, _STEPS // len(left))
        search = _DepthFirst(component, _left_of(table, component, types, each), pay, steps)
        found |= dict.fromkeys(islice(search.ways(), max(1, _MOST_OPTIONS // len(left))))
    return described(component, table, sorted(found, key=lambda way: (sum(way[0]), way[0])), pay)


def _left_of(table: OptionTable, component: Component, types: Sequence[DeviceType], left: NodeLedger) -> OptionTable:
    """Return the same table with the devices that are left."""
    counts = {
        ask.demand: [left.most(each, ask.demand) if ask.demand in each.takes else 0 for each in types]
        for ask in asks_of(component)
    }
    rows = zip(component.requests, table.candidates, strict=True)
    return replace(
        table,
        totals=tuple(max(row) for row in zip(*counts.values(), strict=True)),
        candidates=tuple(
            tuple(
                None if mask is None else _candidate_left(ask, mask, table.totals, counts[ask.demand])
                for ask, mask in zip(*row, strict=True)
            )
            for row in rows
        ),
        supplies={},
    )


def _candidate_left(ask: Ask, mask: int, totals: tuple[int, ...], counts: list[int]) -> int | None:
    """Return those of the types of an alternative that have devices left; None where these are too few."""
    usable = sum(1 << bit for bit in bits(mask) if counts[bit])
    if ask.needed:
        return usable if sum(counts[bit] for bit in bits(usable)) >= ask.needed else None
    return mask if all(counts[bit] == totals[bit] for bit in bits(mask)) else None


@dataclass(slots=True, eq=False)
class _DepthFirst:
    """
    Chooses an alternative for each request in turn, and looks after each whether the devices that are left suffice.

    `steps` is how many choices it may still look at.
    """

    component: Component
    table: OptionTable
    pay: PayUnits
    steps: int

    def ways(self, chosen: tuple[int, ...] = ()) -> Iterator[Way]:
        """Yield the ways that begin with some alternatives."""
        self.steps -= 1
        if self.steps < 0:
            return
        found, requests = self._masks(chosen), len(self.component.requests)
        if len(chosen) == requests:
            yield from ((chosen, masks) for masks in found)
        elif next(found, None) is not None:
            for alternative, mask in enumerate(self.table.candidates[len(chosen)]):
                if mask is not None:
                    yield from self.ways((*chosen, alternative))

    def _masks(self, chosen: tuple[int, ...]) -> Iterator[Masks]:
        """Yield the candidates that alternatives of the first requests leave."""
        table, component = self.table, self.component
        self.pay(1 + len(chosen) * (1 + len(component.links) // 8))
        needs = tuple(row[choice] for row, choice in zip(table.needs, chosen, strict=False))
        masks = tuple(row[choice] or 0 for row, choice in zip(table.candidates, chosen, strict=False))
        covered = tuple(Cover.of(link).requests(chosen) for link in component.links)
        for each in Narrowing(table, self.pay).of(needs, masks, covered):
            is_short = component.most_results and table.most(needs, each) > component.most_results
            if not is_short and table.has_enough(needs, each):
                yield each
