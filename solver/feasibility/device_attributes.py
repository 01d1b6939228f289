"""Looking up device attributes for constraints."""

from typing import NamedTuple

from solver.domain import AttributeKind, Device
from solver.feasibility import selectors

Items = tuple[tuple[AttributeKind, int | bool | str], ...]
"""The scalar values of an attribute with their kinds; empty if the device lacks it."""


class AttributeName(NamedTuple):
    """
    A fully qualified attribute name; constraints always use one.

    `expression` gives the value where a request derives the attribute (`derivedAttributes`), whatever is published.
    """

    domain: str
    id: str
    expression: str = ""

    @classmethod
    def parse(cls, text: str, expression: str = "") -> "AttributeName":
        """Split at the first slash."""
        domain, _, name = text.partition("/")
        return cls(domain, name, expression)


def lookup(driver: str, device: Device, name: AttributeName) -> Items:
    """
    Look up an attribute by its qualified name, or by the bare name if the domain is the driver's.

    Versions stay text: constraints compare them as published, unlike CEL's `==`.
    """
    if name.expression:
        derived = selectors.compile_derived(name.expression).value(driver, device)
        return derived.items() if derived is not None else ()
    qualified, bare = f"{name.domain}/{name.id}", None
    for key, value in device.attributes:
        if key == qualified:
            return value.items()
        if key == name.id and name.domain == driver:
            bare = value
    return bare.items() if bare is not None else ()
