"""matchAttribute and distinctAttribute hold over the devices of the requests that they cover."""

from collections.abc import Iterator
from itertools import combinations

from solver.domain import AttributeKind, Constraint, ConstraintKind, DeviceId, DeviceResult, Violation
from solver.verify.picture import Grant, Picture
from solver.verify.pools import Published
from solver.verify.rules import Rule, broken

Values = frozenset[tuple[AttributeKind, int | bool | str]]
"""The values of an attribute with their types: one of a scalar, any number of a list, none where it is missing."""


def violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check every constraint of a newly allocated claim."""
    for constraint in grant.claim.constraints:
        found: list[tuple[DeviceId, Values]] = []
        for result in _covered(grant, constraint):
            published = picture.pools.find(result.device)
            if published is not None:
                found.append((result.device, attribute_values(published, constraint.attribute)))
        yield from _constraint(grant, constraint, found)


def covers(constraint: Constraint, main: str, chosen: str) -> bool:
    """A name covers its request; `main/sub` only where that alternative was chosen; no names cover everything."""
    return not constraint.requests or bool({main, chosen} & set(constraint.requests))


def _covered(grant: Grant, constraint: Constraint) -> Iterator[DeviceResult]:
    for served in grant.served:
        if covers(constraint, served.request.name, served.name):
            yield from served.results


def _constraint(grant: Grant, constraint: Constraint, found: list[tuple[DeviceId, Values]]) -> Iterator[Violation]:
    name = constraint.attribute
    for device, values in found:
        if not values:
            yield broken(Rule.CONSTRAINT_ATTRIBUTE, grant.claim.id, f"device {device} has no attribute {name}")
    if constraint.kind == ConstraintKind.MATCH:
        if found and not frozenset.intersection(*(values for _, values in found)):
            devices = ", ".join(str(device) for device, _ in found)
            yield broken(Rule.CONSTRAINT_MATCH, grant.claim.id, f"{devices} have no value of {name} in common")
    elif constraint.kind == ConstraintKind.DISTINCT:
        for (first, left), (second, right) in combinations(found, 2):
            if left & right:
                message = f"{first} and {second} have the same {name}"
                yield broken(Rule.CONSTRAINT_DISTINCT, grant.claim.id, message)


def attribute_values(published: Published, name: str) -> Values:
    """Look an attribute up by its whole name, else without the domain where that is the device's own driver."""
    attributes = dict(published.device.attributes)
    domain, _, own = name.partition("/")
    value = attributes.get(name)
    if value is None and domain == published.id.driver:
        value = attributes.get(own)
    return frozenset(value.items()) if value is not None else frozenset()
