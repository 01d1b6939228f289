"""
What an expression reads of a device, determined at compile time.

`device.attributes["domain"].name` with constant domain and name is one value (a `Read`), looked up once per device.
Results can be cached by these values. If an expression uses the maps in another way, results depend on the device.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.cel import tree
from solver.cel.errors import EvaluationError
from solver.cel.values import DomainMap, Value, parse_semver
from solver.domain import AttributeKind, AttributeValue, Device, Quantity

TYPE_SUFFIXES: Final = frozenset({"string", "int", "bool", "version", "quantity", "value"})
"""Fields of the API's one-of value that users append to an attribute; CEL has no such field."""


class Domain(NamedTuple):
    """One inner map of `device.attributes` or `device.capacity`; an empty name is the driver's own domain."""

    is_capacity: bool
    name: str
    is_optional: bool


class Read(NamedTuple):
    """One attribute or capacity by domain (empty: the driver's) and name."""

    is_capacity: bool
    domain: str
    name: str

    def __str__(self) -> str:
        """As messages name it."""
        what = "capacity" if self.is_capacity else "attribute"
        return f"{what} {self.domain}/{self.name}" if self.domain else f"{what} {self.name} of its driver"


@dataclass(slots=True)
class Reads:
    """All that an expression reads of a device; `slots` are the slots of the values in the evaluation's frame."""

    slots: dict[Read, int] = field(default_factory=dict)
    reads_maps: bool = False
    reads_driver: bool = False
    reads_allow_multiple: bool = False


class Unreadable:
    """The value of an attribute that is missing or malformed."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


ABSENT: Final = Unreadable("")
_AS_THEY_ARE: Final = frozenset({AttributeKind.INT, AttributeKind.BOOL, AttributeKind.STRING})


def attribute_value(attribute: AttributeValue) -> Value:
    """Convert an attribute to a CEL value; Unreadable if its version is malformed."""
    if attribute.kind in _AS_THEY_ARE:
        return attribute.value
    try:
        if attribute.kind is AttributeKind.VERSION:
            return parse_semver(str(attribute.value))
        if attribute.kind is AttributeKind.VERSIONS:
            return [parse_semver(str(text)) for _, text in attribute.items()]
    except EvaluationError as error:
        return Unreadable(str(error))
    return [value for _, value in attribute.items()]


def published_value(published: AttributeValue | Quantity | None) -> Value:
    """Convert an attribute or capacity to a CEL value."""
    if published is None:
        return ABSENT
    return published if isinstance(published, Quantity) else attribute_value(published)


def attribute_maps(driver: str, device: Device) -> DomainMap:
    """Make `device.attributes`; EvaluationError if an attribute is malformed."""
    values = [(name, attribute_value(attribute)) for name, attribute in device.attributes]
    for name, value in values:
        if isinstance(value, Unreadable):
            raise EvaluationError("attribute {}: {}", name, value.reason)
    return _by_domain(driver, values)


def capacity_maps(driver: str, device: Device) -> DomainMap:
    """Make `device.capacity`."""
    return _by_domain(driver, [(name, capacity.value) for name, capacity in device.capacities])


def _by_domain(driver: str, values: list[tuple[str, Value]]) -> DomainMap:
    """Group values by domain; bare names belong to the driver's domain, where a fully qualified name wins."""
    maps = DomainMap()
    own: dict[str, Value] = {}
    for name, value in values:
        domain, slash, identifier = name.partition("/")
        if slash:
            maps.setdefault(domain, {})[identifier] = value
        else:
            own[name] = value
    if own:
        maps[driver] = own | maps.get(driver, {})
    return maps


def domain_of(node: tree.AstNode) -> Domain | None:
    """Recognise `device.attributes["domain"]`, `device.capacity[device.driver]`, `device.attributes[?"domain"]`."""
    if isinstance(node, tree.Index):
        name = _constant_domain(node.key)
    elif isinstance(node, tree.Select) and not node.is_test:
        name = node.field
    else:
        return None
    which = device_field(node.operand)
    if name is None or which not in {"attributes", "capacity"}:
        return None
    return Domain(which == "capacity", name, node.is_optional)


def device_field(node: tree.AstNode) -> str | None:
    """Recognise `device.field`."""
    if not isinstance(node, tree.Select) or node.is_test or node.is_optional:
        return None
    operand = node.operand
    return node.field if isinstance(operand, tree.Ident) and operand.name in {"device", ".device"} else None


def _constant_domain(key: tree.AstNode) -> str | None:
    if isinstance(key, tree.Literal) and isinstance(key.value, str) and key.value:
        return key.value
    return "" if device_field(key) == "driver" else None
