"""
Device requests: every request has devices of one of its alternatives, in the number that it asks for.

`selects` says which devices a request selects (CEL), `consumption` what it consumes of their capacities (KEP-5075).
"""

from collections.abc import Iterator
from typing import Final

from solver.domain import (
    AllocationMode,
    Capacity,
    Constraint,
    ConstraintKind,
    DeviceClass,
    DeviceId,
    Node,
    Quantity,
    Request,
    RequestPolicy,
    SubRequest,
    Violation,
)
from solver.feasibility.selectors import SelectorError, compile_selector
from solver.verify import matching
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


_ONE: Final = 10**9
"""Nano-units in a whole unit."""
_THOUSANDTH: Final = _ONE // 1000


def consumption(published: Published, asked: tuple[tuple[str, Quantity], ...]) -> dict[str, int] | None:
    """
    Return what one result consumes by published name, or None if the device cannot serve the request even unused.

    A result of a device that is not shareable consumes nothing; its capacity requests are minimum sizes.
    """
    capacities = dict(published.device.capacities)
    wanted: dict[str, int] = {}
    for name, amount in asked:
        known = _published_name(name, published)
        if known is None or known in wanted:
            return None
        wanted[known] = amount.nano
    if not published.device.allow_multiple_allocations:
        fits = all(amount <= capacities[name].value.nano for name, amount in wanted.items())
        return {} if fits else None
    consumed = {name: _consumed(capacity, wanted.get(name)) for name, capacity in capacities.items()}
    found = {name: amount for name, amount in consumed.items() if amount is not None}
    if len(found) < len(consumed) or any(amount > capacities[name].value.nano for name, amount in found.items()):
        return None
    return found


def _published_name(name: str, published: Published) -> str | None:
    """Find a published capacity by its name, or with the driver's domain added or removed."""
    names = dict(published.device.capacities)
    prefix = f"{published.id.driver}/"
    spellings = (name, name.removeprefix(prefix), prefix + name)
    return next((each for each in spellings if each in names), None)


def _consumed(capacity: Capacity, asked: int | None) -> int | None:
    """Apply default, rounding and limits of the request policy; None if it refuses the amount."""
    policy = capacity.request_policy or RequestPolicy()
    if asked is None:
        return capacity.value.nano if policy.default is None else policy.default.nano
    if policy.valid_range is not None:
        return _in_range(policy, asked)
    if policy.valid_values:
        return min((each.nano for each in policy.valid_values if each.nano >= asked), default=None)
    return asked


def _in_range(policy: RequestPolicy, asked: int) -> int | None:
    limits = policy.valid_range
    if limits is None:
        return asked
    rounded = max(asked, limits.min.nano)
    if asked >= limits.min.nano and limits.step is not None and limits.step.nano > 0:
        bounds = [limits.min, limits.step, *([limits.max] if limits.max is not None else [])]
        is_exact = all(each.nano % _THOUSANDTH == 0 and each.nano < 2**63 * _THOUSANDTH for each in bounds)
        size = _THOUSANDTH if is_exact and not limits.counts_whole_units else _ONE
        if size == _THOUSANDTH and asked % size:
            return None
        low, step, amount = (-(-each // size) for each in (limits.min.nano, limits.step.nano, asked))
        rounded = (low + -(-(amount - low) // step) * step) * size
        if rounded >= 2**63 * size:
            return None
    is_default = policy.default is not None and rounded == policy.default.nano
    if limits.max is not None and rounded > limits.max.nano and not is_default:
        return None
    return rounded


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


def is_large_enough(wanted: SubRequest, published: Published) -> bool:
    """Whether the unused device has the requested capacities."""
    return consumption(published, wanted.capacity_requests) is not None
