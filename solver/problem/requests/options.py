"""
Ways to serve a component on a node: which alternative of each request, which value of each matched attribute.

An option fixes those choices. What remains are independent lines "so many devices out of these types", which greedy
and model count. Options are computed once per component and group and are independent of current usage.

Choices multiply: a claim may have 32 requests of 8 alternatives each under 32 constraints. Sets of types are bits of an
integer here, so that a constraint narrows all candidates at once. Every step is paid for before it is done.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from solver.domain import ConstraintKind
from solver.problem.devices.layout import DeviceLayout, DeviceType, NodeGroup, type_at
from solver.problem.requests.component import Ask, Component, ComponentConstraint, Line, Masks, Option, Way, Ways
from solver.problem.requests.demand import Verdict
from solver.problem.requests.distinct_values import can_differ

MOST_OPTIONS: Final = 4096
"""The most options per component and group; preferred alternatives come first."""
_DEAD_ENDS: Final = 32
"""Dead ends after which the search looks ahead at the remaining constraints before it branches."""
_MOST_KNOWN: Final = 256
"""Sets of types whose values are kept."""

PayUnits = Callable[[int], None]
"""Takes the cost units of a step before it is done; raises `AllowanceSpentError` where too few are left."""


def unpaid(units: int) -> None:
    """Accept every cost: no limit."""
    del units


def options(component: Component, group: NodeGroup, layout: DeviceLayout, pay: PayUnits = unpaid) -> tuple[Option, ...]:
    """Enumerate the options of a component on nodes of a group, best rank first; empty if there is none."""
    table = OptionTable.of(component, group, layout)
    key = (component.links, component.most_results, table.key)
    ways = layout.ways.get(key)
    if ways is None:
        ways = layout.ways[key] = _ways(component, table, pay)
    return described(component, table, ways, pay)


def described(component: Component, table: "OptionTable", ways: Collection[Way], pay: PayUnits) -> tuple[Option, ...]:
    """Make the options of ways, each line once."""
    pay(len(ways) * len(component.requests))
    lines: dict[tuple[int, int, int], Line] = {}
    found = []
    for alternatives, masks in ways:
        keys = tuple(enumerate(zip(alternatives, masks, strict=True)))
        for request, (alternative, mask) in keys:
            if (request, alternative, mask) not in lines:
                ask = component.requests[request][alternative]
                lines[request, alternative, mask] = table.line((request, alternative), ask, mask)
        each = tuple(lines[request, alternative, mask] for request, (alternative, mask) in keys)
        found.append(Option(alternatives, sum(alternatives), each))
    return tuple(found)


def _ways(component: Component, table: "OptionTable", pay: PayUnits) -> Ways:
    """Enumerate choices of alternatives, and for each the values of the attributes that have to match."""
    possible = [[i for i, each in enumerate(row) if each is not None] for row in table.candidates]
    narrowing, found = Narrowing(table, pay), list[tuple[tuple[int, ...], Masks]]()
    covers = [Cover.of(link) for link in component.links]
    known: dict[tuple[Masks, Masks, tuple[Covered, ...]], tuple[Masks, ...]] = {}
    for alternatives in islice(_in_order_of_preference(possible), MOST_OPTIONS):
        pay(len(alternatives) * (1 + len(covers) // 8))
        needs = tuple(row[choice].needed for row, choice in zip(component.requests, alternatives, strict=True))
        chosen = tuple(row[choice] or 0 for row, choice in zip(table.candidates, alternatives, strict=True))
        covered = tuple(each.requests(alternatives) for each in covers)
        left = MOST_OPTIONS - len(found)
        if (needs, chosen, covered) not in known:
            fitting = (
                masks
                for masks in narrowing.of(needs, chosen, covered)
                if not component.most_results or table.most(needs, masks) <= component.most_results
            )
            known[needs, chosen, covered] = tuple(islice(fitting, left))
        found += ((alternatives, masks) for masks in known[needs, chosen, covered][:left])
        if len(found) >= MOST_OPTIONS:
            break
    return tuple(found)


def _in_order_of_preference(possible: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Yield choices of one alternative per request by the sum of their positions, lowest first."""
    if not all(possible):
        return
    first = (0,) * len(possible)
    heap = [(sum(row[0] for row in possible), first)]
    seen = {first}
    while heap:
        _, at = heappop(heap)
        yield tuple(row[i] for row, i in zip(possible, at, strict=True))
        for request, i in enumerate(at):
            following = (*at[:request], i + 1, *at[request + 1 :])
            if i + 1 < len(possible[request]) and following not in seen:
                seen.add(following)
                rank = sum(row[index] for row, index in zip(possible, following, strict=True))
                heappush(heap, (rank, following))


class Cover(NamedTuple):
    """The requests that a constraint covers: by alternative (-1: all) the position of what is compared in `sources`."""

    members: tuple[tuple[int, dict[int, int]], ...]

    @classmethod
    def of(cls, link: ComponentConstraint) -> "Cover":
        """Describe a constraint."""
        found: dict[int, dict[int, int]] = {}
        for member in link.members:
            found.setdefault(member.request, {})[member.alternative] = link.sources.index(member.attribute)
        return cls(tuple(sorted(found.items(), key=lambda item: item[0])))

    def requests(self, alternatives: tuple[int, ...]) -> "Covered":
        """Return the covered requests for alternatives of the first requests, each with what is compared."""
        known = ((key, named) for key, named in self.members if key < len(alternatives))
        found = ((key, named.get(-1, named.get(alternatives[key], -1))) for key, named in known)
        return tuple((key, source) for key, source in found if source >= 0)


Covered = tuple[tuple[int, int], ...]
"""Requests, each with the position of what is compared in `ComponentConstraint.sources`."""


@dataclass(slots=True, eq=False)
class OptionTable:
    """
    The types of a group of nodes as bits, in the order of `references`.

    `candidates` are the types that can serve each alternative of each request, None where the node cannot serve it.
    `values` are per constraint, and per attribute that it compares (`ComponentConstraint.sources`), the types that have
    each value; `having` the types that have any. `exclusive` are the types each device of which one request gets.
    """

    references: tuple[int, ...]
    totals: tuple[int, ...]
    candidates: tuple[tuple[int | None, ...], ...] = ()
    needs: tuple[tuple[int, ...], ...] = ()
    kinds: tuple[ConstraintKind, ...] = ()
    values: list[tuple[dict[object, int], ...]] = field(default_factory=list)
    having: list[Masks] = field(default_factory=list)
    orders: list[tuple[tuple[tuple[object, ...], ...], ...]] = field(default_factory=list)
    exclusive: int = 0
    supplies: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, component: Component, group: NodeGroup, layout: DeviceLayout) -> "OptionTable":
        """Describe what serves a component on nodes of a group with nothing in use."""
        references = (*range(len(group.types)), *(-each - 1 for each in group.wide))
        types = [type_at(layout, group, each) for each in references]
        table = cls(references, tuple(each.total for each in types))
        answers = {ask.demand: [each.verdict.get(ask.demand) for each in types] for ask in asks_of(component)}
        table.exclusive = sum(1 << bit for bit, each in enumerate(types) if _is_exclusive(each, answers))
        table.candidates = tuple(
            tuple(table.candidate(ask, answers[ask.demand], is_unsettled=group.is_unsettled) for ask in row)
            for row in component.requests
        )
        table.needs = tuple(tuple(ask.needed for ask in row) for row in component.requests)
        table.kinds = tuple(link.kind for link in component.links)
        for link in component.links:
            positions = [layout.attributes.index(each) for each in link.sources]
            columns = tuple(tuple(each.attributes[position] for each in types) for position in positions)
            table.orders.append(columns)
            table.values.append(tuple(map(_by_value, columns)))
            table.having.append(tuple(sum(1 << bit for bit, items in enumerate(each) if items) for each in columns))
        return table

    @property
    def key(self) -> tuple[object, ...]:
        """Return all that ways depend on: equal keys have equal ways."""
        return self.totals, self.candidates, self.needs, tuple(self.orders), self.exclusive

    def has_enough(self, needs: Masks, masks: Masks) -> bool:
        """Whether requests for devices that only one of them can get find enough of them together."""
        wanted = [(mask, need or self.supply(mask)) for need, mask in zip(needs, masks, strict=True)]
        return all(
            sum(need for other, need in wanted if not other & ~mask) <= self.supply(mask)
            for mask in set(masks)
            if not mask & ~self.exclusive
        )

    def candidate(self, ask: Ask, verdicts: list[Verdict | None], *, is_unsettled: bool) -> int | None:
        """Return the types that can serve an alternative; None where the node cannot serve it even if all is free."""
        usable = sum(1 << bit for bit, verdict in enumerate(verdicts) if verdict == Verdict.YES)
        if ask.needed:
            return usable if self.supply(usable) >= ask.needed else None
        if is_unsettled or set(verdicts) - {Verdict.YES, Verdict.CAPACITY, None}:
            return None
        return usable or None

    def supply(self, mask: int) -> int:
        """Count the devices of types."""
        found = self.supplies.get(mask)
        if found is None:
            found = self.supplies[mask] = sum(self.totals[bit] for bit in bits(mask))
        return found

    def most(self, needs: Masks, masks: Masks) -> int:
        """Count the devices that are taken."""
        return sum(need or self.supply(mask) for need, mask in zip(needs, masks, strict=True))

    def line(self, at: tuple[int, int], ask: Ask, mask: int) -> Line:
        """Return the line of a request."""
        types = tuple(self.references[bit] for bit in bits(mask))
        return Line(*at, ask.demand, ask.needed or self.supply(mask), types, takes_each=not ask.needed)


def _is_exclusive(device: DeviceType, demands: Collection[int]) -> bool:
    """Whether only one request gets each device of a type; admin access takes none."""
    served = (demand for demand in demands if device.verdict.get(demand) == Verdict.YES)
    return not device.is_shareable and all(device.takes[demand] for demand in served)


def _by_value(column: tuple[tuple[object, ...], ...]) -> dict[object, int]:
    masks: dict[object, int] = {}
    for bit, items in enumerate(column):
        for value in items:
            masks[value] = masks.get(value, 0) | 1 << bit
    return masks


def asks_of(component: Component) -> Iterator[Ask]:
    """Go through all alternatives of all requests."""
    return (ask for row in component.requests for ask in row)


def bits(mask: int) -> Iterator[int]:
    """Go through the positions of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True, eq=False)
class Narrowing:
    """Chooses a value for each matchAttribute in turn, and keeps only the types that have it."""

    table: OptionTable
    pay: PayUnits
    dead_ends: int = 0
    _known: dict[tuple[int, int, int], Collection[object]] = field(default_factory=dict)

    def of(self, needs: Masks, chosen: Masks, covered: tuple[Covered, ...]) -> Iterator[Masks]:
        """Yield the candidates that each choice of values leaves; constraints that cover no request are skipped."""
        kinds = self.table.kinds
        # What has to differ is looked at last: it chooses nothing, and depends on what the others leave.
        order = sorted(range(len(covered)), key=lambda number: kinds[number] is ConstraintKind.DISTINCT)
        links = tuple((number, covered[number]) for number in order if covered[number])
        return self._rest((needs, chosen), chosen, links)

    def _rest(
        self, asked: tuple[Masks, Masks], masks: Masks, links: tuple[tuple[int, Covered], ...]
    ) -> Iterator[Masks]:
        """
        Choose for the first constraint, then for the rest: a depth-first search that tries equal candidates once.

        After many dead ends it looks at each remaining constraint before it goes on: forward checking (Haralick and
        Elliott 1980). That costs more than it saves where most choices succeed.
        """
        if not links:
            yield masks
            return
        (number, covered), rest = links[0], links[1:]
        self.pay(1 + len(covered) // 4)
        seen: set[Masks] = set()
        for narrowing in self._narrowings(number, covered, masks):
            narrowed = list(masks)
            for request, source in covered:
                narrowed[request] &= narrowing[source]
            key = tuple(narrowed[request] for request, _ in covered)
            self.pay(1 + len(covered) // 4)
            if key in seen or not self._suffices(asked, narrowed, covered):
                continue
            if not self._differ(number, asked, narrowed, covered):
                continue
            seen.add(key)
            if self.dead_ends < _DEAD_ENDS or self._may_go_on(asked, narrowed, rest):
                yield from self._rest(asked, tuple(narrowed), rest)
        if not seen:
            self.dead_ends += 1

    def _narrowings(self, number: int, covered: Covered, masks: Masks) -> list[Masks]:
        """
        Return the types that each choice for a constraint leaves, for each attribute that it compares.

        The choices are values that candidates of every covered request have, in the order of the first request's types.
        """
        table = self.table
        if table.kinds[number] is ConstraintKind.DISTINCT:
            return [table.having[number]]
        (request, source), found = covered[0], []
        for value, mask in table.values[number][source].items():
            narrowing = tuple(each.get(value, 0) for each in table.values[number])
            if all(masks[each] & narrowing[its] for each, its in covered):
                bit = (masks[request] & mask) & -(masks[request] & mask)
                items = table.orders[number][source][bit.bit_length() - 1]
                found.append((bit, items.index(value), narrowing))
        self.pay(len(table.values[number][source]) // 4)
        return [narrowing for *_, narrowing in sorted(found)]

    def _suffices(self, asked: tuple[Masks, Masks], narrowed: list[int], covered: Covered) -> bool:
        """Whether enough devices are left, also for all requests together; one for all devices must not lose any."""
        table, (needs, chosen), together = self.table, asked, 0
        for each, _ in covered:
            mask = narrowed[each]
            if not (table.supply(mask) >= needs[each] if needs[each] else mask == chosen[each]):
                return False
            together |= mask
        if together & ~table.exclusive:
            return True
        return sum(needs[each] or table.supply(narrowed[each]) for each, _ in covered) <= table.supply(together)

    def _differ(self, number: int, asked: tuple[Masks, Masks], masks: Sequence[int], covered: Covered) -> bool:
        """Whether the devices that are left can have different values, where the constraint asks for that."""
        table, (needs, _) = self.table, asked
        if table.kinds[number] is not ConstraintKind.DISTINCT:
            return True
        self.pay(1 + sum(len(table.values[number][source]) for _, source in covered) // 4)
        return can_differ(
            [
                (needs[each] or table.supply(masks[each]), self._values(number, source, masks[each]))
                for each, source in covered
            ]
        )

    def _values(self, number: int, source: int, mask: int) -> Collection[object]:
        """Return the values that types have; many choices leave the same types to a request."""
        key = (number, source, mask)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = [value for value, types in self.table.values[number][source].items() if types & mask]
        return self._known[key]

    def _may_go_on(self, asked: tuple[Masks, Masks], masks: list[int], links: tuple[tuple[int, Covered], ...]) -> bool:
        """Whether each remaining constraint by itself leaves enough devices."""
        needs, _ = asked
        for number, covered in links:
            narrowing = self._narrowings(number, covered, tuple(masks))
            self.pay(1 + len(narrowing) * len(covered) // 4)
            if not self._differ(number, asked, masks, covered) or not any(
                all(self.table.supply(masks[each] & mask[its]) >= max(1, needs[each]) for each, its in covered)
                for mask in narrowing
            ):
                return False
        return True
