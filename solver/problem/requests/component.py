"""
Components of a claim: requests that constraints join, which have to be served together; and options to serve one.

Different components are independent, so each is served on its own, and equal components are counted, not repeated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from solver.domain import AllocationMode, Claim, Constraint, ConstraintKind, Request, RequestName, SubRequest
from solver.domain.disjoint_sets import DisjointSets
from solver.feasibility.claims import MAX_RESULTS
from solver.feasibility.device_attributes import AttributeName


class Ask(NamedTuple):
    """One alternative of a request: which demand, and how many devices (0 where it takes all that match)."""

    demand: int
    needed: int


class Member(NamedTuple):
    """
    A request of a component that a constraint covers; `alternative` is -1 where it covers every one.

    `attribute` is the attribute of its devices that is compared: the constraint's, or what the request derives for it.
    """

    request: int
    alternative: int
    attribute: AttributeName


class ComponentConstraint(NamedTuple):
    """A constraint inside a component."""

    kind: ConstraintKind
    attribute: AttributeName
    members: tuple[Member, ...]

    def compared(self, request: int, alternative: int) -> AttributeName | None:
        """Return what is compared of the devices of an alternative; None where the constraint does not cover it."""
        found = (each for each in self.members if each.request == request and each.alternative in {-1, alternative})
        return next((each.attribute for each in found), None)

    @property
    def sources(self) -> tuple[AttributeName, ...]:
        """What is compared, each once."""
        return tuple(dict.fromkeys(each.attribute for each in self.members))


class Component(NamedTuple):
    """
    Requests (alternatives of each, preferred first) and the constraints that join them.

    `needs_identity` marks components whose rules name single devices (distinctAttribute, admin access beside other
    requests), so that copies must not be counted together. `most_results` is the limit of devices where the claim could
    reach the API's limit, else 0.
    """

    requests: tuple[tuple[Ask, ...], ...]
    links: tuple[ComponentConstraint, ...]
    needs_identity: bool
    most_results: int


class ClaimComponent(NamedTuple):
    """A component of one claim with the positions of its requests in the claim."""

    component: Component
    positions: tuple[int, ...]


def components_of(claim: Claim, demand_of: Callable[[SubRequest], int]) -> tuple[ClaimComponent, ...]:
    """Return the components of a claim, in the order of their first requests."""
    has_admin = any(alternative.admin_access for request in claim.requests for alternative in request.alternatives)
    is_joint = _may_exceed_limit(claim.requests) or (has_admin and len(claim.requests) > 1)
    found = []
    for positions in _joined(claim, is_joint=is_joint):
        requests = tuple(
            tuple(Ask(demand_of(alternative), _count(alternative)) for alternative in claim.requests[i].alternatives)
            for i in positions
        )
        links = tuple(_links(claim, positions))
        component = Component(
            requests=requests,
            links=links,
            needs_identity=has_admin or any(link.kind is ConstraintKind.DISTINCT for link in links),
            most_results=MAX_RESULTS if _may_exceed_limit(claim.requests) else 0,
        )
        found.append(ClaimComponent(component, positions))
    return tuple(found)


def _count(alternative: SubRequest) -> int:
    return 0 if alternative.allocation_mode == AllocationMode.ALL else alternative.count


def _may_exceed_limit(requests: Iterable[Request]) -> bool:
    """Whether some choice of alternatives could take more devices than an allocation may hold."""
    most = 0
    for request in requests:
        counts = [_count(alternative) for alternative in request.alternatives]
        if 0 in counts:
            return True
        most += max(counts)
    return most > MAX_RESULTS


def _covered(claim: Claim, constraint: Constraint) -> tuple[Member, ...]:
    """Requests of the claim that a constraint covers, by position in the claim."""
    if not constraint.requests:
        return tuple(each for position in range(len(claim.requests)) for each in _whole(claim, position, constraint))
    members = list[Member]()
    for text in constraint.requests:
        name = RequestName.parse(text)
        for position, request in enumerate(claim.requests):
            if request.name != name.main:
                continue
            if not name.sub:
                members += _whole(claim, position, constraint)
            members += [
                _member(position, i, each, constraint)
                for i, each in enumerate(request.alternatives)
                if name.sub and each.name == name.sub
            ]
    return tuple(members)


def _whole(claim: Claim, position: int, constraint: Constraint) -> Iterator[Member]:
    """Yield the members of a request that is covered whole: one, or one for each alternative where some derive."""
    alternatives = claim.requests[position].alternatives
    if any(each.derived(constraint.attribute) for each in alternatives):
        yield from (_member(position, i, each, constraint) for i, each in enumerate(alternatives))
    else:
        yield Member(position, -1, AttributeName.parse(constraint.attribute))


def _member(position: int, alternative: int, wanted: SubRequest, constraint: Constraint) -> Member:
    attribute = AttributeName.parse(constraint.attribute, wanted.derived(constraint.attribute))
    return Member(position, alternative, attribute)


def _joined(claim: Claim, *, is_joint: bool) -> list[tuple[int, ...]]:
    """Return the connected components of the positions of requests, in the order of their first positions."""
    positions, joined = range(len(claim.requests)), DisjointSets[int]()
    for constraint in claim.constraints:
        joined.join(member.request for member in _covered(claim, constraint))
    if is_joint:
        joined.join(positions)
    found: defaultdict[int, list[int]] = defaultdict(list)
    for position in positions:
        found[joined.find(position)].append(position)
    return [tuple(each) for each in found.values()]


def _links(claim: Claim, positions: tuple[int, ...]) -> Iterable[ComponentConstraint]:
    local = {position: index for index, position in enumerate(positions)}
    for constraint in claim.constraints:
        members = tuple(
            member._replace(request=local[member.request])
            for member in _covered(claim, constraint)
            if member.request in local
        )
        if members:
            yield ComponentConstraint(constraint.kind, AttributeName.parse(constraint.attribute), members)


class Line(NamedTuple):
    """
    `needed` devices out of `types` for a request (by its position in the component).

    `takes_each` marks a request for all devices: every device of every type, `needed` in total.
    """

    request: int
    alternative: int
    demand: int
    needed: int
    types: tuple[int, ...]
    takes_each: bool


Masks = tuple[int, ...]
"""Candidates of each request, as bits of a table of types."""
Way = tuple[tuple[int, ...], Masks]
"""A choice of alternatives with the candidates that are left."""
Ways = tuple[Way, ...]


class Option(NamedTuple):
    """One way: the alternative of each request, the sum of their ranks (0 is best), and what it takes."""

    alternatives: tuple[int, ...]
    rank: int
    lines: tuple[Line, ...]
