"""
Whether devices can have different values (distinctAttribute), by a matching of devices and values.

A device uses up all of its values. Where each has one, the answer is exact; where some have more, a yes may be wrong
and a no is right. Without it a search would try every order of devices: k requests for v values fail v!/(v-k)! times.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from solver.domain import ConstraintKind
from solver.feasibility.device_attributes import AttributeName
from solver.problem.devices.layout import DeviceLayout, NodeGroup, type_at
from solver.problem.requests.component import Component, Line, Option


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


@dataclass(slots=True, eq=False)
class LineValues:
    """
    Values that devices of lines have which are left on a node; `is_left` says of a type and a demand if one is.

    Options have lines in common, so each is looked at once.
    """

    group: NodeGroup
    layout: DeviceLayout
    is_left: Callable[[int, int], bool]
    _known: dict[tuple[int, AttributeName], Collection[object]] = field(default_factory=dict)
    """By the identity of the line: it has many types."""

    def of(self, line: Line, attribute: AttributeName) -> Collection[object]:
        """Return the values of an attribute; the line has to stay as long as this."""
        key = (id(line), attribute)
        if key not in self._known:
            position = self.layout.attributes.index(attribute)
            types = (type_at(self.layout, self.group, each) for each in line.types if self.is_left(each, line.demand))
            self._known[key] = frozenset(value for each in types for value in each.attributes[position])
        return self._known[key]


def may_be_served(component: Component, option: Option, left: LineValues) -> bool:
    """Whether the devices that an option takes can differ."""
    return all(
        can_differ(
            [
                (line.needed, left.of(line, attribute))
                for line in option.lines
                if (attribute := link.compared(line.request, line.alternative)) is not None
            ]
        )
        for link in component.links
        if link.kind is ConstraintKind.DISTINCT
    )
