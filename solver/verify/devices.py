"""Every device of a new allocation exists, answers its request and is described as the API wants it."""

import re
from collections.abc import Iterator
from typing import Final

from solver.domain import Device, DeviceClass, DeviceResult, SubRequest, Violation
from solver.verify import matching
from solver.verify.amounts import consumption
from solver.verify.picture import Grant, Picture, Served
from solver.verify.pools import Published
from solver.verify.rules import Rule, broken
from solver.verify.selection import SelectionError, selects

_SHARE_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
"""A share's id: a lower-case UUID of 36 characters."""


def violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check device by device, whatever else is in use."""
    for served in grant.served:
        for result in served.results:
            published = picture.pools.find(result.device)
            if published is None:
                message = f"request {served.name}: the newest generation of its pool has no device {result.device}"
                yield broken(Rule.DEVICE_UNKNOWN, grant.claim.id, message)
                continue
            for rule, message in _against(grant, served, (result, published), picture):
                text = f"request {served.name}, device {result.device}: {message}"
                yield broken(rule, grant.claim.id, text)


def _against(
    grant: Grant, served: Served, pair: tuple[DeviceResult, Published], picture: Picture
) -> Iterator[tuple[Rule, str]]:
    result, published = pair
    trouble = picture.pools.view(published.id.pool_id).trouble
    if trouble:
        yield Rule.DEVICE_POOL, f"its pool cannot be used: {trouble}"
    for node in grant.nodes:
        if not matching.reaches(published.scope, node):
            yield Rule.DEVICE_SCOPE, f"it cannot be used on node {node.name}"
    device_class = picture.classes.get(served.wanted.device_class)
    if device_class is not None and is_offered_twice(device_class, served.wanted, published, picture):
        resource = device_class.extended_resource_name
        yield Rule.DEVICE_OFFERED_TWICE, f"a device plugin of its node offers {resource} of class {device_class.name}"
    if not is_owned(published, picture):
        yield Rule.DEVICE_NOT_OWNED, "the configuration does not give it to this scheduler"
    for taint in matching.untolerated(picture.pools.taints(published.id), served.wanted.tolerations):
        yield Rule.DEVICE_TAINT, f"it has the taint {taint.key}={taint.value}:{taint.effect}"
    yield from _selected(served, published, picture)
    yield from _copied(served, result, published.device)
    yield from _share(result, published.device)
    yield from _consumed(served, result, published)


def is_offered_twice(device_class: DeviceClass, wanted: SubRequest, published: Published, picture: Picture) -> bool:
    """Whether the node's own allocatable has the class's extended resource; admin access takes nothing from it."""
    node = picture.nodes.get(published.scope.node_name)
    if node is None or wanted.admin_access or picture.policy.allocates_where_plugins_serve:
        return False
    resource = device_class.extended_resource_name
    return bool(resource) and dict(node.allocatable).get(resource, 0) > 0


def is_owned(published: Published, picture: Picture) -> bool:
    """Ownership is by driver, and for devices that are local to a node by the node's labels too."""
    owned = picture.policy.owned
    if owned.drivers and published.id.driver not in owned.drivers:
        return False
    node = picture.nodes.get(published.scope.node_name)
    if node is None or not owned.node_terms:
        return True
    return any(matching.term_holds(term, node) for term in owned.node_terms)


def _selected(served: Served, published: Published, picture: Picture) -> Iterator[tuple[Rule, str]]:
    device_class = picture.classes.get(served.wanted.device_class)
    if device_class is None:
        return
    try:
        answer = selects(device_class, served.wanted, published)
    except SelectionError as failure:
        yield Rule.DEVICE_SELECTOR, str(failure)
        return
    if not answer:
        yield Rule.DEVICE_SELECTOR, f"the selectors of class {device_class.name} or of the request do not match it"


def _copied(served: Served, result: DeviceResult, device: Device) -> Iterator[tuple[Rule, str]]:
    """Eviction and binding read the copies only."""
    pairs = {
        "adminAccess": (result.admin_access, served.wanted.admin_access),
        "tolerations": (result.tolerations, served.wanted.tolerations),
        "bindingConditions": (result.binding_conditions, device.binding_conditions),
        "bindingFailureConditions": (result.binding_failure_conditions, device.binding_failure_conditions),
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
        yield Rule.RESULT_SHARE, f"{result.share_id!r} is no lower-case UUID"


def _consumed(served: Served, result: DeviceResult, published: Published) -> Iterator[tuple[Rule, str]]:
    expected = consumption(published, served.wanted.capacity_requests)
    if expected is None:
        yield Rule.DEVICE_CAPACITY, "it does not have the capacities that are asked for, or its policies refuse them"
        return
    given = {name: amount.nano for name, amount in result.consumed_capacity}
    if given != expected and not (result.admin_access and not given):
        yield Rule.RESULT_CONSUMPTION, f"it consumes {given} nano-units, its policies say {expected}"
