"""
Requests and constraints: what a claim asks for, and what the CEL of users says of its devices.

Every request has as many devices as one of its alternatives asks for, and selects each. `constraint_violations` checks
matchAttribute and distinctAttribute over the devices of the covered requests.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from solver.domain import (
    AllocationMode,
    AttributeKind,
    Constraint,
    ConstraintKind,
    DeviceClass,
    DeviceId,
    DeviceResult,
    Node,
    Request,
    SubRequest,
    Violation,
)
from solver.feasibility.selectors import SelectorError, compile_derived, compile_selector
from solver.verify import matching
from solver.verify.devices import is_large_enough
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest
from solver.verify.pools import Published
from solver.verify.violations import Rule, broken

MOST_RESULTS: Final = 32
"""AllocationResultsMaxSize of the API."""


def request_violations(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check names, alternatives, counts and the sets of requests for all devices."""
    claim, results = new.claim, new.allocation.results
    if len(results) > MOST_RESULTS:
        yield broken(Rule.ALLOCATION_SIZE, claim.id, f"{len(results)} devices are new, at most {MOST_RESULTS}")
    names = {str(request.result_name(i)) for request in claim.requests for i in range(len(request.alternatives))}
    for name in dict.fromkeys(result.request for result in results):
        if name not in names:
            yield broken(Rule.REQUEST_UNKNOWN, claim.id, f"it has no request {name}")
    for constraint in claim.constraints:
        yield from _known(new, constraint)
    for request in claim.requests:
        yield from _request(new, request, context)


def _known(new: NewAllocation, constraint: Constraint) -> Iterator[Violation]:
    if constraint.kind == ConstraintKind.UNKNOWN:
        yield broken(Rule.CLAIM_INVALID, new.claim.id, "it has a constraint of an unknown kind")


def _request(new: NewAllocation, request: Request, context: PlanContext) -> Iterator[Violation]:
    if not request.alternatives:
        yield broken(Rule.CLAIM_INVALID, new.claim.id, f"request {request.name} is of an unknown kind")
        return
    chosen = [each for each in new.served if each.request is request]
    if not chosen:
        yield broken(Rule.REQUEST_COUNT, new.claim.id, f"request {request.name} has no device")
    if len(chosen) > 1:
        names = " and ".join(each.name for each in chosen)
        yield broken(Rule.REQUEST_MIXED, new.claim.id, f"request {request.name} has devices for {names}")
    for served in chosen:
        yield from _served(new, served, context)
        yield from _selected(new, served, context)


def _served(new: NewAllocation, served: ServedRequest, context: PlanContext) -> Iterator[Violation]:
    wanted, where = served.wanted, f"request {served.name}"
    device_class = context.classes.get(wanted.device_class)
    if device_class is None:
        yield broken(Rule.REQUEST_CLASS, new.claim.id, f"{where}: there is no class {wanted.device_class}")
    elif device_class.invalid:
        yield broken(Rule.REQUEST_CLASS, new.claim.id, f"{where}: class {wanted.device_class} cannot be read")
    elif wanted.allocation_mode == AllocationMode.ALL:
        yield from _all(new, served, device_class, context)
    elif wanted.allocation_mode != AllocationMode.EXACT_COUNT:
        message = f"{where}: allocation mode {wanted.allocation_mode} is not known"
        yield broken(Rule.CLAIM_INVALID, new.claim.id, message)
    elif len(served.results) != wanted.count:
        message = f"{where} asks for {wanted.count} devices and has {len(served.results)}"
        yield broken(Rule.REQUEST_COUNT, new.claim.id, message)


def _all(
    new: NewAllocation, served: ServedRequest, device_class: DeviceClass, context: PlanContext
) -> Iterator[Violation]:
    """
    Compare a request for all devices with the devices of a node; with several nodes one of them must match.

    An incomplete or invalid pool of the node, or a selector that fails on a device, makes "all" undefined.
    """
    found: list[Violation] = []
    for node in new.nodes:
        against = list(_all_of(new, served, (device_class, node), context))
        if not against:
            return
        found += against
    yield from found


def _all_of(
    new: NewAllocation, served: ServedRequest, place: tuple[DeviceClass, Node], context: PlanContext
) -> Iterator[Violation]:
    device_class, node = place
    views = list(context.pools.seen_from(node))
    for trouble in (view.trouble for view in views if view.trouble):
        message = f"request {served.name} asks for all devices, and node {node.name} sees a pool where {trouble}"
        yield broken(Rule.REQUEST_UNSETTLED, new.claim.id, message)
    visible = [each for view in views for each in view.devices.values() if matching.reaches(each.scope, node)]
    try:
        wanted = {each.id for each in visible if _is_meant(device_class, served, each)}
    except SelectionError as failure:
        yield broken(Rule.REQUEST_ALL, new.claim.id, f"request {served.name} on node {node.name}: {failure}")
        return
    given = {result.device for result in served.results}
    if given != wanted:
        message = f"request {served.name} on node {node.name}: {_difference(given, wanted)}"
        yield broken(Rule.REQUEST_ALL, new.claim.id, message)


def _is_meant(device_class: DeviceClass, served: ServedRequest, published: Published) -> bool:
    return selects(device_class, served.wanted, published) and is_large_enough(served.wanted, published)


def _difference(given: set[DeviceId], wanted: set[DeviceId]) -> str:
    missing = ", ".join(str(each) for each in sorted(wanted - given))
    surplus = ", ".join(str(each) for each in sorted(given - wanted))
    return "; ".join(text for text in (missing and f"{missing} missing", surplus and f"{surplus} not meant") if text)


def _selected(new: NewAllocation, served: ServedRequest, context: PlanContext) -> Iterator[Violation]:
    """Check that class and request select every device."""
    device_class = context.classes.get(served.wanted.device_class)
    for result in served.results if device_class is not None else ():
        published = context.pools.find(result.device)
        if device_class is None or published is None:
            continue
        try:
            if selects(device_class, served.wanted, published):
                continue
            message = f"class {device_class.name} or request {served.name} does not select it"
        except SelectionError as failure:
            message = str(failure)
        yield broken(Rule.DEVICE_SELECTOR, new.claim.id, f"device {result.device}: {message}")


class SelectionError(Exception):
    """A selector does not compile or fails on a device; the message says which and why."""


def selects(device_class: DeviceClass, wanted: SubRequest, published: Published) -> bool:
    """
    Whether all selectors are true, those of the class first; stops at the first that is not.

    Raises `SelectionError` if one fails.
    """
    return all(_is_true(each, published) for each in (*device_class.selectors, *wanted.selectors))


def _is_true(expression: str, published: Published) -> bool:
    try:
        selector = compile_selector(expression)
    except SelectorError as error:
        raise SelectionError(f"selector {expression!r} does not compile: {error}") from error
    outcome = selector.evaluate(published.id.driver, published.device)
    if isinstance(outcome, bool):
        return outcome
    raise SelectionError(f"selector {expression!r} failed: {outcome.message}")


Values = frozenset[tuple[AttributeKind, int | bool | str]]
"""The typed values of an attribute: one for a scalar, any number for a list, none if it is missing."""


def constraint_violations(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check every constraint of a newly new claim."""
    for constraint in new.claim.constraints:
        found: list[tuple[DeviceId, Values]] = []
        for served, result in _covered(new, constraint):
            published = context.pools.find(result.device)
            if published is not None:
                found.append((result.device, attribute_values(published, constraint.attribute, served.wanted)))
        yield from _constraint(new, constraint, found)


def covers(constraint: Constraint, main: str, chosen: str) -> bool:
    """Whether a constraint covers a request: by `main`, by `main/sub` of the chosen alternative, or by no names."""
    return not constraint.requests or bool({main, chosen} & set(constraint.requests))


def _covered(new: NewAllocation, constraint: Constraint) -> Iterator[tuple[ServedRequest, DeviceResult]]:
    for served in new.served:
        if covers(constraint, served.request.name, served.name):
            yield from ((served, result) for result in served.results)


def _constraint(
    new: NewAllocation, constraint: Constraint, found: list[tuple[DeviceId, Values]]
) -> Iterator[Violation]:
    name = constraint.attribute
    for device, values in found:
        if not values:
            yield broken(Rule.CONSTRAINT_ATTRIBUTE, new.claim.id, f"device {device} has no attribute {name}")
    if constraint.kind == ConstraintKind.MATCH:
        if found and not frozenset.intersection(*(values for _, values in found)):
            devices = ", ".join(str(device) for device, _ in found)
            yield broken(Rule.CONSTRAINT_MATCH, new.claim.id, f"{devices} have no value of {name} in common")
    elif constraint.kind == ConstraintKind.DISTINCT:
        for (first, left), (second, right) in combinations(found, 2):
            if left & right:
                message = f"{first} and {second} have the same {name}"
                yield broken(Rule.CONSTRAINT_DISTINCT, new.claim.id, message)


def attribute_values(published: Published, name: str, wanted: SubRequest | None = None) -> Values:
    """
    Return the value that a request derives; else look up the attribute by its qualified name.

    The bare name counts too if the domain is the driver's.
    """
    for each in wanted.derived_attributes if wanted is not None else ():
        if each.name == name:
            try:
                derived = compile_derived(each.expression).value(published.id.driver, published.device)
            except SelectorError:
                derived = None
            return frozenset(derived.items()) if derived is not None else frozenset()
    attributes = dict(published.device.attributes)
    domain, _, own = name.partition("/")
    value = attributes.get(name)
    if value is None and domain == published.id.driver:
        value = attributes.get(own)
    return frozenset(value.items()) if value is not None else frozenset()
