"""Looking up device attributes for constraints."""

from typing import NamedTuple

from solver.domain import AttributeKind, Device

Items = tuple[tuple[AttributeKind, int | bool | str], ...]
"""The scalar values of an attribute with their kinds; empty if the device lacks it."""


class AttributeName(NamedTuple):
    """A fully qualified attribute name; constraints always use one."""

    domain: str
    id: str

    @classmethod
    def parse(cls, text: str) -> "AttributeName":
        """Split at the first slash."""
        domain, _, name = text.partition("/")
        return cls(domain, name)


def lookup(driver: str, device: Device, name: AttributeName) -> Items:
    """
    Look up an attribute by its qualified name, or by the bare name if the domain is the driver's.

    Versions stay text: constraints compare them as published, unlike CEL's `==`.
    """
    qualified, bare = f"{name.domain}/{name.id}", None
    for key, value in device.attributes:
        if key == qualified:
            return value.items()
        if key == name.id and name.domain == driver:
            bare = value
    return bare.items() if bare is not None else ()
