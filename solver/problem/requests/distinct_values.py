"""
Whether devices can have different values (distinctAttribute), by a matching of devices and values.

A device uses up all of its values. Where each has one, the answer is exact; where some have more, a yes may be wrong
and a no is right. Without it a search would try every order of devices: k requests for v values fail v!/(v-k)! times.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from solver.domain import ConstraintKind
from solver.problem.devices.layout import DeviceLayout, NodeGroup, type_at
from solver.problem.requests.component import Component, Option


def can_differ(wanted: Sequence[tuple[int, Collection[object]]]) -> bool:
    """Whether so many devices for each request, each with one of these values at least, can all have other values."""
    if sum(count for count, _ in wanted) > len({value for _, values in wanted for value in values}):
        return False
    if any(count > len(values) for count, values in wanted):
        return False
    matching = _Matching([values for _, values in wanted])
    # Requests with few values first: they leave less to rearrange.
    order = sorted(range(len(wanted)), key=lambda request: len(wanted[request][1]))
    return all(matching.extend(request, set()) for request in order for _ in range(wanted[request][0]))


@dataclass(slots=True, eq=False)
class _Matching:
    """
    Values that requests have, each for one device; it grows by augmenting paths (Kuhn 1955).

    A path goes through requests, of which a claim has few: one that asks for all devices may have thousands of values.
    """

    values: Sequence[Collection[object]]
    holder: dict[object, int] = field(default_factory=dict)
    _unseen: list[Iterator[object]] = field(init=False)
    """The values of each request that were not found to be held: one that is held stays so."""

    def __post_init__(self) -> None:
        """Begin with no value held."""
        self._unseen = [iter(each) for each in self.values]

    def extend(self, request: int, seen: set[int]) -> bool:
        """Give a request one value more, where others may change theirs; False where none is left."""
        seen.add(request)
        free = next((value for value in self._unseen[request] if value not in self.holder), None)
        if free is not None:
            self.holder[free] = request
            return True
        for value in self.values[request]:
            if self.holder[value] not in seen and self.extend(self.holder[value], seen):
                self.holder[value] = request
                return True
        return False


def may_be_served(
    component: Component, option: Option, group: NodeGroup, layout: DeviceLayout, is_left: Callable[[int, int], bool]
) -> bool:
    """Whether the devices that an option takes can differ; `is_left` says of a type and a demand if one is left."""
    for link in component.links:
        if link.kind is not ConstraintKind.DISTINCT:
            continue
        wanted = []
        for line in option.lines:
            attribute = link.compared(line.request, line.alternative)
            if attribute is not None:
                position = layout.attributes.index(attribute)
                types = (each for each in line.types if is_left(each, line.demand))
                values = {v for each in types for v in type_at(layout, group, each).attributes[position]}
                wanted.append((line.needed, values))
        if not can_differ(wanted):
            return False
    return True
