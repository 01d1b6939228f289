"""Devices on their way to becoming types: what a batch can see of each, before labels are given."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from solver.feasibility.device_attributes import AttributeName, Items, lookup
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.layout import MOST_UNITS, Sharing
from solver.problem.requests.demand import Answers

Column = dict[int, Items]
"""What devices, by record index, publish of one attribute, as far as it was read."""


class Draft(NamedTuple):
    """A record on its way to a type: its key before labels are given, and its raw attribute values."""

    record: DeviceRecord
    verdicts: tuple[tuple[int, int], ...]
    sharing: Sharing | None
    attributes: tuple[Items, ...]


@dataclass(slots=True, eq=False)
class Drafting:
    """What building a layout needs at hand: the inventory and every device's answers."""

    inventory: Inventory
    answers: Sequence[Answers]
    attributes: tuple[AttributeName, ...]
    is_admin: tuple[bool, ...]
    verdicts: defaultdict[int, list[tuple[int, int]]]
    columns: tuple[Column, ...]
    labelled: tuple[bool, ...] = ()

    def draft(self, index: int) -> Draft | None:
        """Describe a record, or None where no demand of the batch can see it."""
        verdicts = self.verdicts.get(index)
        if verdicts is None:
            return None
        record = self.inventory.records[index]
        values = tuple(self.items(record, position) for position in range(len(self.attributes)))
        return Draft(record, tuple(verdicts), self._sharing(record, verdicts), values)

    def too_small(self, draft: Draft) -> tuple[tuple[int, frozenset[int]], ...]:
        """Give, by demand, the nodes that see a device and have less than it takes of them."""
        answers, index = self.answers, draft.record.index
        return tuple(
            (demand, answers[demand].too_small[index])
            for demand, _ in draft.verdicts
            if index in answers[demand].too_small
        )

    def items(self, record: DeviceRecord, position: int) -> Items:
        """Read an attribute of a device, once."""
        column = self.columns[position]
        found = column.get(record.index)
        if found is None:
            found = column[record.index] = lookup(record.id.driver, record.device, self.attributes[position])
        return found

    def _sharing(self, record: DeviceRecord, verdicts: list[tuple[int, int]]) -> Sharing | None:
        if not record.device.allow_multiple_allocations:
            return None
        capacities = tuple((name, capacity.value.nano) for name, capacity in record.device.capacities)
        consumption = tuple((demand, self.answers[demand].consumption.get(record.index)) for demand, _ in verdicts)
        return Sharing(capacities, consumption)


def prepare(
    inventory: Inventory,
    answers: Sequence[Answers],
    is_admin: tuple[bool, ...],
    attributes: Mapping[AttributeName, Column],
) -> Drafting:
    """
    Gather, per record, the verdicts of all demands, and find out which labels are local.

    `attributes` are those that are constrained, with what was read of them before.
    """
    verdicts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for demand, answer in enumerate(answers):
        for index, verdict in answer.verdicts.items():
            verdicts[index].append((demand, int(verdict)))
    drafting = Drafting(inventory, answers, tuple(attributes), is_admin, verdicts, tuple(attributes.values()))
    drafting.labelled = _labelled(drafting)
    return drafting


def _labelled(drafting: Drafting) -> tuple[bool, ...]:
    """Which attributes may be renumbered per node: no cluster-wide device has them, and none is a list."""
    wide = [draft for index in drafting.inventory.wide if (draft := drafting.draft(index)) is not None]
    lists = set[int]()
    for index in drafting.verdicts:
        record = drafting.inventory.records[index]
        lists.update(
            position for position in range(len(drafting.attributes)) if len(drafting.items(record, position)) > 1
        )
    return tuple(
        position not in lists and not any(draft.attributes[position] for draft in wide)
        for position in range(len(drafting.attributes))
    )


def scale_of(amounts: Sequence[int], total: int) -> int:
    """
    Choose the nano-units of one unit of a budget: the amounts' greatest common divisor, if that is coarse enough.

    Where tiny amounts would make units too many, large amounts still come out whole, and tiny ones are rounded up
    by the caller: nothing is overcommitted, and what is lost is below `total` / 2^44.
    """
    scale = math.gcd(*amounts) or 1
    if total // scale <= MOST_UNITS:
        return scale
    finest = -(-total // MOST_UNITS)
    scale = math.gcd(*(amount for amount in amounts if amount >= finest)) or 1
    if scale < finest:
        return finest
    while scale % 2 == 0 and total // (scale // 2) <= MOST_UNITS:
        scale //= 2
    return scale


def units(amount: int, scale: int) -> int:
    """Give an amount in units, rounded up; one that no budget has is one more than any has."""
    return min(-(-amount // scale), MOST_UNITS + 1)
