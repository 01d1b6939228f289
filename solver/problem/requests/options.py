"""
Ways to serve a component on a node: which alternative of each request, which value of each matched attribute.

An option fixes those choices; what remains are independent lines "so many devices out of these types", which is
what the greedy and the model count. Computed once per component and group: usage plays no ask.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from solver.domain import ConstraintKind
from solver.problem.devices.layout import Group, Layout, type_at
from solver.problem.requests.component import Ask, Component, Link
from solver.problem.requests.demand import Verdict
from solver.problem.requests.option import Line, Option

MOST_OPTIONS: Final = 4096
"""Options kept per component and group; what exceeds it is cut off, preferred alternatives first."""


def options(component: Component, group: Group, layout: Layout) -> tuple[Option, ...]:
    """Enumerate the options of a component on nodes of a group, best rank first; empty if there is none."""
    where = (group, layout)
    candidates = [[_candidates(ask, group, layout) for ask in alternatives] for alternatives in component.requests]
    possible = [[i for i, each in enumerate(row) if each is not None] for row in candidates]
    found: list[Option] = []
    for alternatives in islice(_in_order_of_preference(possible), MOST_OPTIONS):
        asks = [asks[choice] for asks, choice in zip(component.requests, alternatives, strict=True)]
        chosen = [row[choice] or () for row, choice in zip(candidates, alternatives, strict=True)]
        links = tuple(_active(component.links, alternatives))
        for narrowed in _narrowed(asks, chosen, links, where):
            lines = tuple(
                _line((request, alternatives[request]), ask, types, where)
                for request, (ask, types) in enumerate(zip(asks, narrowed, strict=True))
            )
            if not component.most_results or sum(line.needed for line in lines) <= component.most_results:
                found.append(Option(alternatives, sum(alternatives), lines))
            if len(found) >= MOST_OPTIONS:
                return tuple(found)
    return tuple(found)


def _in_order_of_preference(possible: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Choices of one alternative per request by the sum of their positions, lowest first, made one at a time."""
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


def _active(links: tuple[Link, ...], alternatives: tuple[int, ...]) -> Iterator[tuple[Link, tuple[int, ...]]]:
    """Constraints with the requests they cover under a choice of alternatives."""
    for link in links:
        covered = sorted(
            {member.request for member in link.members if member.alternative in {-1, alternatives[member.request]}}
        )
        if covered:
            yield link, tuple(covered)


def _references(group: Group) -> Iterator[int]:
    yield from range(len(group.types))
    yield from (-each - 1 for each in group.wide)


def _candidates(ask: Ask, group: Group, layout: Layout) -> tuple[int, ...] | None:
    """Types that can serve a part, or None where the node cannot serve it whatever is free."""
    answering = [(each, type_at(layout, group, each)) for each in _references(group)]
    if ask.needed:
        usable = tuple(each for each, device in answering if device.verdict.get(ask.demand) == Verdict.YES)
        return usable if _supply(usable, (group, layout)) >= ask.needed else None
    verdicts = {device.verdict[ask.demand] for _, device in answering if ask.demand in device.verdict}
    if group.is_unsettled or verdicts - {Verdict.YES, Verdict.CAPACITY}:
        return None
    return tuple(each for each, device in answering if device.verdict.get(ask.demand) == Verdict.YES) or None


def _supply(types: tuple[int, ...], where: tuple[Group, Layout]) -> int:
    group, layout = where
    return sum(type_at(layout, group, each).total for each in types)


def _narrowed(
    asks: list[Ask],
    candidates: list[tuple[int, ...]],
    links: tuple[tuple[Link, tuple[int, ...]], ...],
    where: tuple[Group, Layout],
) -> Iterator[list[tuple[int, ...]]]:
    """Choose a value for each matchAttribute in turn, keeping only the types that have it."""
    if not links:
        yield candidates
        return
    (link, covered), rest = links[0], links[1:]
    if link.kind is ConstraintKind.DISTINCT:
        narrowed = _with_attribute(candidates, link, covered, where)
        if _suffices(asks, narrowed, covered, where):
            yield from _narrowed(asks, narrowed, rest, where)
        return
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for value in _common_values(candidates, link, covered, where):
        narrowed = _with_value(candidates, link, (covered, value), where)
        key = tuple(narrowed[each] for each in covered)
        if key not in seen and _suffices(asks, narrowed, covered, where):
            seen.add(key)
            yield from _narrowed(asks, narrowed, rest, where)


def _values(link: Link, reference: int, where: tuple[Group, Layout]) -> tuple[object, ...]:
    group, layout = where
    return type_at(layout, group, reference).attributes[layout.attributes.index(link.attribute)]


def _common_values(
    candidates: list[tuple[int, ...]], link: Link, covered: tuple[int, ...], where: tuple[Group, Layout]
) -> list[object]:
    """Values that devices of every covered request have, in the order of the first request's types."""
    per_request = [
        dict.fromkeys(value for each in candidates[request] for value in _values(link, each, where))
        for request in covered
    ]
    return [value for value in per_request[0] if all(value in values for values in per_request[1:])]


def _with_value(
    candidates: list[tuple[int, ...]],
    link: Link,
    chosen: tuple[tuple[int, ...], object],
    where: tuple[Group, Layout],
) -> list[tuple[int, ...]]:
    covered, value = chosen
    narrowed = list(candidates)
    for request in covered:
        narrowed[request] = tuple(each for each in candidates[request] if value in _values(link, each, where))
    return narrowed


def _with_attribute(
    candidates: list[tuple[int, ...]], link: Link, covered: tuple[int, ...], where: tuple[Group, Layout]
) -> list[tuple[int, ...]]:
    narrowed = list(candidates)
    for request in covered:
        narrowed[request] = tuple(each for each in candidates[request] if _values(link, each, where))
    return narrowed


def _suffices(
    asks: list[Ask], narrowed: list[tuple[int, ...]], covered: tuple[int, ...], where: tuple[Group, Layout]
) -> bool:
    """Whether enough devices are left; a request for all devices must not have lost any."""
    for request in covered:
        ask = asks[request]
        if ask.needed and _supply(narrowed[request], where) < ask.needed:
            return False
        if not ask.needed and narrowed[request] != _candidates(ask, *where):
            return False
    return True


def _line(at: tuple[int, int], ask: Ask, types: tuple[int, ...], where: tuple[Group, Layout]) -> Line:
    request, alternative = at
    needed = ask.needed or _supply(types, where)
    return Line(request, alternative, ask.demand, needed, types, takes_each=not ask.needed)
