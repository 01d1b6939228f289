"""Every request of a newly allocated claim is served by one of its alternatives, in the number it asks for."""

from collections.abc import Iterator
from typing import Final

from solver.domain import AllocationMode, Constraint, ConstraintKind, DeviceClass, DeviceId, Node, Request, Violation
from solver.verify import matching
from solver.verify.picture import Grant, Picture, Served
from solver.verify.pools import Published
from solver.verify.rules import Rule, broken
from solver.verify.selection import SelectionError, is_large_enough, selects

MOST_RESULTS: Final = 32
"""Results that an allocation can have."""


def violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check names, alternatives, counts and the sets of requests for all devices."""
    claim, results = grant.claim, grant.allocation.results
    if len(results) > MOST_RESULTS:
        yield broken(Rule.ALLOCATION_SIZE, claim.id, f"{len(results)} devices are allocated, at most {MOST_RESULTS}")
    names = {str(request.result_name(i)) for request in claim.requests for i in range(len(request.alternatives))}
    for name in dict.fromkeys(result.request for result in results):
        if name not in names:
            yield broken(Rule.REQUEST_UNKNOWN, claim.id, f"it has no request {name}")
    for constraint in claim.constraints:
        yield from _known(grant, constraint)
    for request in claim.requests:
        yield from _request(grant, request, picture)


def _known(grant: Grant, constraint: Constraint) -> Iterator[Violation]:
    if constraint.kind == ConstraintKind.UNKNOWN:
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, "it has a constraint of an unknown kind")


def _request(grant: Grant, request: Request, picture: Picture) -> Iterator[Violation]:
    if not request.alternatives:
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, f"request {request.name} is of an unknown kind")
        return
    chosen = [each for each in grant.served if each.request is request]
    if not chosen:
        yield broken(Rule.REQUEST_COUNT, grant.claim.id, f"request {request.name} has no device")
    if len(chosen) > 1:
        names = " and ".join(each.name for each in chosen)
        yield broken(Rule.REQUEST_MIXED, grant.claim.id, f"request {request.name} has devices for {names}")
    for served in chosen:
        yield from _served(grant, served, picture)


def _served(grant: Grant, served: Served, picture: Picture) -> Iterator[Violation]:
    wanted, where = served.wanted, f"request {served.name}"
    device_class = picture.classes.get(wanted.device_class)
    if device_class is None:
        yield broken(Rule.REQUEST_CLASS, grant.claim.id, f"{where}: there is no class {wanted.device_class}")
    elif device_class.invalid:
        yield broken(Rule.REQUEST_CLASS, grant.claim.id, f"{where}: class {wanted.device_class} cannot be read")
    elif wanted.allocation_mode == AllocationMode.ALL:
        yield from _all(grant, served, device_class, picture)
    elif wanted.allocation_mode != AllocationMode.EXACT_COUNT:
        message = f"{where}: allocation mode {wanted.allocation_mode} is not known"
        yield broken(Rule.CLAIM_INVALID, grant.claim.id, message)
    elif len(served.results) != wanted.count:
        message = f"{where} asks for {wanted.count} devices and has {len(served.results)}"
        yield broken(Rule.REQUEST_COUNT, grant.claim.id, message)


def _all(grant: Grant, served: Served, device_class: DeviceClass, picture: Picture) -> Iterator[Violation]:
    """
    Compare with all devices of a node; where consumers are on several nodes one of them has to explain the set.

    A pool that the node sees and that is incomplete or invalid, or a selector that fails on a device there, leaves
    open what "all" is.
    """
    found: list[Violation] = []
    for node in grant.nodes:
        against = list(_all_of(grant, served, (device_class, node), picture))
        if not against:
            return
        found += against
    yield from found


def _all_of(grant: Grant, served: Served, place: tuple[DeviceClass, Node], picture: Picture) -> Iterator[Violation]:
    device_class, node = place
    views = list(picture.pools.seen_from(node))
    for trouble in (view.trouble for view in views if view.trouble):
        message = f"request {served.name} asks for all devices, and node {node.name} sees a pool where {trouble}"
        yield broken(Rule.REQUEST_UNSETTLED, grant.claim.id, message)
    visible = [each for view in views for each in view.devices.values() if matching.reaches(each.scope, node)]
    try:
        wanted = {each.id for each in visible if _is_meant(device_class, served, each)}
    except SelectionError as failure:
        yield broken(Rule.REQUEST_ALL, grant.claim.id, f"request {served.name} on node {node.name}: {failure}")
        return
    given = {result.device for result in served.results}
    if given != wanted:
        message = f"request {served.name} on node {node.name}: {_difference(given, wanted)}"
        yield broken(Rule.REQUEST_ALL, grant.claim.id, message)


def _is_meant(device_class: DeviceClass, served: Served, published: Published) -> bool:
    return selects(device_class, served.wanted, published) and is_large_enough(served.wanted, published)


def _difference(given: set[DeviceId], wanted: set[DeviceId]) -> str:
    missing = ", ".join(str(each) for each in sorted(wanted - given))
    surplus = ", ".join(str(each) for each in sorted(given - wanted))
    return "; ".join(text for text in (missing and f"{missing} missing", surplus and f"{surplus} not meant") if text)
