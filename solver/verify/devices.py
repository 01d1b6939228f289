"""
Devices and constraints: every device of a new allocation exists, matches its request and has a correct result entry.

`constraint_violations` checks matchAttribute and distinctAttribute over the devices of the covered requests.
"""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    AttributeKind,
    Constraint,
    ConstraintKind,
    Device,
    DeviceClass,
    DeviceId,
    DeviceResult,
    SubRequest,
    Violation,
)
from solver.feasibility.selectors import SelectorError, compile_derived
from solver.verify import matching
from solver.verify.plan_context import NewAllocation, PlanContext, ServedRequest
from solver.verify.pools import Published
from solver.verify.requests import SelectionError, consumption, selects
from solver.verify.violations import Rule, broken

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


_SHARE_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
"""A share id: a lower-case UUID of 36 characters."""


def device_violations(new: NewAllocation, context: PlanContext) -> Iterator[Violation]:
    """Check every device of a new allocation by itself."""
    for served in new.served:
        for result in served.results:
            published = context.pools.find(result.device)
            if published is None:
                message = f"request {served.name}: the newest generation of its pool has no device {result.device}"
                yield broken(Rule.DEVICE_UNKNOWN, new.claim.id, message)
                continue
            for rule, message in _against(new, served, (result, published), context):
                text = f"request {served.name}, device {result.device}: {message}"
                yield broken(rule, new.claim.id, text)


def _against(
    new: NewAllocation, served: ServedRequest, pair: tuple[DeviceResult, Published], context: PlanContext
) -> Iterator[tuple[Rule, str]]:
    result, published = pair
    trouble = context.pools.view(published.id.pool_id).trouble
    if trouble:
        yield Rule.DEVICE_POOL, f"its pool cannot be used: {trouble}"
    for node in new.nodes:
        if not matching.reaches(published.scope, node):
            yield Rule.DEVICE_SCOPE, f"it cannot be used on node {node.name}"
        if published.skipped and OPTIONAL_NODE_OPERATIONS not in node.declared_features:
            yield Rule.NODE_FEATURES, f"node {node.name} does not declare the feature {OPTIONAL_NODE_OPERATIONS}"
    device_class = context.classes.get(served.wanted.device_class)
    if device_class is not None and is_offered_twice(device_class, served.wanted, published, context):
        resource = device_class.extended_resource_name
        yield Rule.DEVICE_OFFERED_TWICE, f"a device plugin of its node offers {resource} of class {device_class.name}"
    if not is_owned(published, context):
        yield Rule.DEVICE_NOT_OWNED, "the configuration does not give it to this scheduler"
    for taint in matching.untolerated(context.pools.taints(published.id), served.wanted.tolerations):
        yield Rule.DEVICE_TAINT, f"it has the taint {taint}"
    yield from _selected(served, published, context)
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


def _selected(served: ServedRequest, published: Published, context: PlanContext) -> Iterator[tuple[Rule, str]]:
    device_class = context.classes.get(served.wanted.device_class)
    if device_class is None:
        return
    try:
        answer = selects(device_class, served.wanted, published)
    except SelectionError as failure:
        yield Rule.DEVICE_SELECTOR, str(failure)
        return
    if not answer:
        yield Rule.DEVICE_SELECTOR, f"the selectors of class {device_class.name} or of the request do not match it"


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
            yield Rule.RESULT_COPIES, f"{name} is {given!r} in the result and {expected!r} in its source"


def _share(result: DeviceResult, device: Device) -> Iterator[tuple[Rule, str]]:
    if not device.allow_multiple_allocations:
        if result.share_id:
            yield Rule.RESULT_SHARE, "it cannot be shared and has a share id"
    elif not result.share_id:
        # Admin access takes no share; an allocation of it may still name one.
        if not result.admin_access:
            yield Rule.RESULT_SHARE, "it is shared and has no share id"
    elif not _SHARE_ID.fullmatch(result.share_id):
        yield Rule.RESULT_SHARE, f"{result.share_id!r} is not a lower-case UUID"


def _consumed(served: ServedRequest, result: DeviceResult, published: Published) -> Iterator[tuple[Rule, str]]:
    expected = consumption(published, served.wanted.capacity_requests)
    if expected is None:
        yield Rule.DEVICE_CAPACITY, "it does not have the capacities that are asked for, or its policies refuse them"
        return
    given = {name: amount.nano for name, amount in result.consumed_capacity}
    if given != expected and not (result.admin_access and not given):
        yield Rule.RESULT_CONSUMPTION, f"it consumes {given} nano-units, its policies say {expected}"
