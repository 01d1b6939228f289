"""
Devices: every device of a new allocation exists, can be used where its consumers are, and has a correct result entry.

`consumption` says what one result consumes of a device's capacities (KEP-5075). What selectors and constraints say of a
device is in `requests`: nothing here evaluates CEL.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    Capacity,
    Device,
    DeviceClass,
    DeviceResult,
    Quantity,
    RequestPolicy,
    SubRequest,
    Violation,
)
from solver.domain.quantity import plain
from solver.verify import matching
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest
from solver.verify.pools import Published
from solver.verify.violations import Rule, broken

_SHARE_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
"""A share id: a lower-case UUID of 36 characters."""


def device_violations(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check every device of a new allocation by itself."""
    for served in new.served:
        for result in served.results:
            published = context.pools.find(result.device)
            if published is None:
                message = f"device {result.device} is not published in the newest generation of its pool"
                yield broken(Rule.DEVICE_UNKNOWN, new.claim.id, message)
                continue
            for rule, message in _against(new, served, (result, published), context):
                yield broken(rule, new.claim.id, f"device {result.device} {message}")


def _against(
    new: NewAllocation, served: ServedRequest, pair: tuple[DeviceResult, Published], context: PlanContext
) -> Iterator[tuple[Rule, str]]:
    result, published = pair
    trouble = context.pools.view(published.id.pool_id).trouble
    if trouble:
        yield Rule.DEVICE_POOL, f"is in a pool of which no device may be allocated: {trouble}"
    for node in new.nodes:
        if not matching.reaches(published.scope, node):
            yield Rule.DEVICE_SCOPE, f"cannot be used on node {node.name}"
        if published.skipped and OPTIONAL_NODE_OPERATIONS not in node.declared_features:
            yield (
                Rule.NODE_FEATURES,
                f"needs the feature {OPTIONAL_NODE_OPERATIONS}, which node {node.name} does not declare",
            )
    device_class = context.classes.get(served.wanted.device_class)
    if device_class is not None and is_offered_twice(device_class, served.wanted, published, context):
        resource = device_class.extended_resource_name
        yield (
            Rule.DEVICE_OFFERED_TWICE,
            f"is offered by a device plugin of its node too, as {resource}",
        )
    if not is_owned(published, context):
        yield Rule.DEVICE_NOT_OWNED, "is not given to this scheduler by the configuration"
    for taint in matching.untolerated(context.pools.taints(published.id), served.wanted.tolerations):
        yield Rule.DEVICE_TAINT, f"has the taint {taint}, which its request does not tolerate"
    yield from _copied(served, result, published)
    yield from _share(result, published.device)
    yield from _consumed(served, result, published)


def is_offered_twice(device_class: DeviceClass, wanted: SubRequest, published: Published, context: PlanContext) -> bool:
    """Whether a device plugin of the node serves the class's extended resource (admin access takes none of it)."""
    node = context.nodes.get(published.scope.node_name)
    if node is None or wanted.admin_access or context.policy.allocates_where_plugins_serve:
        return False
    resource = device_class.extended_resource_name
    return bool(resource) and dict(node.allocatable).get(resource, 0) > 0


def is_owned(published: Published, context: PlanContext) -> bool:
    """Whether `devices.owned` covers a device: by driver, and for devices local to a node by the node's labels."""
    owned = context.policy.owned
    if owned.drivers and published.id.driver not in owned.drivers:
        return False
    node = context.nodes.get(published.scope.node_name)
    if node is None or not owned.node_terms:
        return True
    return any(matching.term_holds(term, node) for term in owned.node_terms)


def _copied(served: ServedRequest, result: DeviceResult, published: Published) -> Iterator[tuple[Rule, str]]:
    """Check the fields that results copy, because eviction, binding and the kubelet read only the copies."""
    device = published.device
    pairs = {
        "adminAccess": (result.admin_access, served.wanted.admin_access),
        "tolerations": (result.tolerations, served.wanted.tolerations),
        "bindingConditions": (result.binding_conditions, device.binding_conditions),
        "bindingFailureConditions": (result.binding_failure_conditions, device.binding_failure_conditions),
        "skipNodeOperations": (result.skip_node_operations, published.skipped),
    }
    for name, (given, expected) in pairs.items():
        if given != expected:
            yield Rule.RESULT_COPIES, f"has {name} {expected!r} now, and {given!r} was planned"


def _share(result: DeviceResult, device: Device) -> Iterator[tuple[Rule, str]]:
    if not device.allow_multiple_allocations:
        if result.share_id:
            yield Rule.RESULT_SHARE, "cannot be shared, and a share of it is planned"
    elif not result.share_id:
        # Admin access takes no share; an allocation of it may still name one.
        if not result.admin_access:
            yield Rule.RESULT_SHARE, "can be shared, and is planned for one claim alone"
    elif not _SHARE_ID.fullmatch(result.share_id):
        yield Rule.RESULT_SHARE, f"has the share id {result.share_id!r}, which is not a lower-case UUID"


def _consumed(served: ServedRequest, result: DeviceResult, published: Published) -> Iterator[tuple[Rule, str]]:
    expected = consumption(published, served.wanted.capacity_requests)
    if expected is None:
        yield Rule.DEVICE_CAPACITY, "does not have the capacities that are asked for, or its policies refuse them"
        return
    given = {name: amount.nano for name, amount in result.consumed_capacity}
    if given != expected and not (result.admin_access and not given):
        yield Rule.RESULT_CONSUMPTION, f"gives {_amounts(given)} by the plan, {_amounts(expected)} by its policies"


def _amounts(consumed: Mapping[str, int]) -> str:
    """Write nano-units by capacity for a message."""
    return " and ".join(f"{plain(nano)} of {name}" for name, nano in sorted(consumed.items())) or "nothing"


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
    consumed = {name: _by_policy(capacity, wanted.get(name)) for name, capacity in capacities.items()}
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


def _by_policy(capacity: Capacity, asked: int | None) -> int | None:
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


def is_large_enough(wanted: SubRequest, published: Published) -> bool:
    """Whether the unused device has the requested capacities."""
    return consumption(published, wanted.capacity_requests) is not None
