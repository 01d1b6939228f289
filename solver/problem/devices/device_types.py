"""
What a batch can see of each device, before devices become types; units of budgets; sites of cluster-wide devices.

A site is a set of nodes that all reach the same cluster-wide devices. A claim that pods on several nodes share is
allocated as seen from one site, so greedy and model use one list of sites. The list is bounded: where many scopes
overlap, not every combination is a site.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from solver.feasibility.capacity import published_name
from solver.feasibility.device_attributes import AttributeName, Items, lookup
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.layout import MOST_UNITS, ChargedKey, DeviceLayout, Sharing
from solver.problem.requests.demand import Answers, Verdict

Column = dict[int, Items]
"""What devices, by record index, publish of one attribute, as far as it was read."""


class ComparedAttribute(NamedTuple):
    """
    An attribute that makes devices different: for the demands under a constraint on it, or to keep groups whole.

    Devices that only other demands can get may have any value. Values of attributes with the same `values` are compared
    with each other.
    """

    name: AttributeName
    demands: frozenset[int]
    is_grouping: bool = False
    values: int = 0


class UntypedDevice(NamedTuple):
    """A device before it has a type: its verdicts, and its raw attribute values."""

    record: DeviceRecord
    verdicts: tuple[tuple[int, int], ...]
    sharing: Sharing | None
    attributes: tuple[Items, ...]
    charged: tuple[int | str, ...] = ()


@dataclass(slots=True, eq=False)
class LayoutInput:
    """What a layout is built from: the inventory, the answers of every device, and the attributes that are compared."""

    inventory: Inventory
    answers: Sequence[Answers]
    attributes: tuple[ComparedAttribute, ...]
    is_admin: tuple[bool, ...]
    verdicts: defaultdict[int, list[tuple[int, int]]]
    columns: tuple[Column, ...]
    labelled: tuple[bool, ...] = ()
    charged: tuple[ChargedKey, ...] = ()

    def untyped(self, index: int) -> UntypedDevice | None:
        """Describe a device; None where no demand of the batch matches it."""
        verdicts = self.verdicts.get(index)
        if verdicts is None:
            return None
        record = self.inventory.records[index]
        sharing = self._sharing(record, verdicts) if record.device.allow_multiple_allocations else None
        values = self.values(record, verdicts) if self.attributes else ()
        return UntypedDevice(record, tuple(verdicts), sharing, values, self.sizes(record))

    def sizes(self, record: DeviceRecord) -> tuple[int | str, ...]:
        """
        Return for each capacity that quotas count its nano-units, or of a shareable device its published name.

        An exclusive device counts with all of its capacity, a share with what it consumes.
        """
        if not self.charged:
            return ()
        published = dict(record.device.capacities)
        names = [published_name(record.id.driver, each.capacity, published) for each in self.charged]
        if record.device.allow_multiple_allocations:
            return tuple(name or "" for name in names)
        return tuple(published[name].value.nano if name is not None else 0 for name in names)

    def lost(self, untyped: UntypedDevice) -> tuple[tuple[int, frozenset[int]], ...]:
        """Give, by demand, the nodes that see a device but have less than it takes of them (KEP-5517)."""
        asked = (demand for demand, _ in untyped.verdicts)
        return tuple((demand, lost) for demand in asked if (lost := self.answers[demand].lost(untyped.record.index)))

    def values(self, record: DeviceRecord, verdicts: Sequence[tuple[int, int]]) -> tuple[Items, ...]:
        """Return the values of each compared attribute; none where no constrained demand can get the device."""
        given = {demand for demand, verdict in verdicts if verdict == Verdict.YES}
        return tuple(
            self._items(record, position)
            if not each.demands.isdisjoint(given) or (each.is_grouping and record.home >= 0)
            else ()
            for position, each in enumerate(self.attributes)
        )

    def _items(self, record: DeviceRecord, position: int) -> Items:
        """Read an attribute of a device, once."""
        column = self.columns[position]
        found = column.get(record.index)
        if found is None:
            found = column[record.index] = lookup(record.id.driver, record.device, self.attributes[position].name)
        return found

    def _sharing(self, record: DeviceRecord, verdicts: list[tuple[int, int]]) -> Sharing:
        capacities = tuple((name, capacity.value.nano) for name, capacity in record.device.capacities)
        consumption = tuple((demand, self.answers[demand].consumption.get(record.index)) for demand, _ in verdicts)
        return Sharing(capacities, consumption)


def layout_input(
    inventory: Inventory,
    answers: Sequence[Answers],
    is_admin: tuple[bool, ...],
    attributes: tuple[ComparedAttribute, ...],
    columns: tuple[Column, ...],
    *,
    charged: tuple[ChargedKey, ...] = (),
) -> LayoutInput:
    """
    Collect the verdicts of all demands by device, and find the attributes that are only compared within nodes.

    `columns` are the attribute values that were read before.
    """
    verdicts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for demand, answer in enumerate(answers):
        for index, verdict in answer.verdicts.items():
            verdicts[index].append((demand, int(verdict)))
    inputs = LayoutInput(inventory, answers, attributes, is_admin, verdicts, columns, charged=charged)
    inputs.labelled = _labelled(inputs)
    return inputs


def _labelled(inputs: LayoutInput) -> tuple[bool, ...]:
    """
    Say which attributes may be renumbered per node: no lists, and no value that cluster-wide devices have too.

    Attributes that are compared with each other are renumbered together, or none of them is.
    """
    wide, local = defaultdict[int, set[Items]](set), defaultdict[int, set[Items]](set)
    for index, verdicts in inputs.verdicts.items() if inputs.attributes else ():
        record = inputs.inventory.records[index]
        found = wide if record.home < 0 else local
        for each, items in zip(inputs.attributes, inputs.values(record, verdicts), strict=True):
            found[each.values].add(items)
    is_local = {
        values: max(map(len, wide[values] | local[values]), default=0) <= 1
        and not (wide[values] & local[values]) - {()}
        for values in {each.values for each in inputs.attributes}
    }
    return tuple(is_local[each.values] for each in inputs.attributes)


def scale_of(amounts: Sequence[int], total: int) -> int:
    """
    Choose the nano-units of one unit of a budget: the greatest common divisor of the amounts, if that is coarse enough.

    Where tiny amounts would make too many units, large amounts stay exact and the caller rounds tiny ones up: nothing
    is overcommitted, and the loss is below `total` / 2^44.
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
    """Return an amount in units, rounded up; one that no budget has is one more than any has."""
    return min(-(-amount // scale), MOST_UNITS + 1)


_MOST_SHARED: Final = 32
"""The most sites that are no reach of a single device."""
_MOST_TRIES: Final = 4096
"""The most pairs of sites whose intersection is tried."""


def sites(layout: DeviceLayout, free: Iterable[int]) -> tuple[frozenset[int], ...]:
    """
    Return the sites of the cluster-wide types `free`, which bind no claim to a node.

    First come the nodes that one type reaches, then those that all types of some node reach, then other combinations.
    """
    everywhere = frozenset(range(len(layout.group_of)))
    reaches = {each: everywhere if nodes is None else nodes for each, nodes in enumerate(layout.wide_nodes)}
    reaches = {each: reaches[each] for each in free}
    found = dict.fromkeys(filter(None, reaches.values()))
    most = len(found) + _MOST_SHARED
    for wide in dict.fromkeys(group.wide for group in layout.groups):
        seen = {reaches[each] for each in wide if each in reaches}
        if seen and len(found) < most:
            found.setdefault(everywhere.intersection(*seen))
    for shared in islice(_common(found), _MOST_TRIES):
        if len(found) >= most:
            break
        if shared:
            found.setdefault(shared)
    return tuple(found)


def _common(found: dict[frozenset[int], None]) -> Iterator[frozenset[int]]:
    """Return the intersections of pairs of sites."""
    for one in list(found):
        for other in list(found):
            yield one & other
