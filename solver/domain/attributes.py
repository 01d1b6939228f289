"""Attribute values of devices (`resource.k8s.io/v1` DeviceAttribute)."""

from enum import StrEnum

import msgspec


class AttributeKind(StrEnum):
    """Which of the one-of fields of a DeviceAttribute is set; the plural ones are lists (DRAListTypeAttributes)."""

    INT = "int"
    BOOL = "bool"
    STRING = "string"
    VERSION = "version"
    INTS = "ints"
    BOOLS = "bools"
    STRINGS = "strings"
    VERSIONS = "versions"

    __hash__ = str.__hash__  # Enum's own is Python code, and attribute values are hashed by the million

    @property
    def is_list(self) -> bool:
        """Whether the value is a tuple."""
        return self in {
            AttributeKind.INTS,
            AttributeKind.BOOLS,
            AttributeKind.STRINGS,
            AttributeKind.VERSIONS,
        }


type_of_item = {
    AttributeKind.INTS: AttributeKind.INT,
    AttributeKind.BOOLS: AttributeKind.BOOL,
    AttributeKind.STRINGS: AttributeKind.STRING,
    AttributeKind.VERSIONS: AttributeKind.VERSION,
}
"""The scalar kind of each list kind."""


class AttributeValue(msgspec.Struct, frozen=True):
    """
    One attribute's value with its kind.

    `value` is an int, bool or str for scalar kinds and a tuple of them for list kinds; a version stays the text
    that the driver published (constraints compare it as text, CEL as a semantic version).
    """

    kind: AttributeKind
    value: int | bool | str | tuple[int | bool | str, ...]

    def items(self) -> tuple[tuple[AttributeKind, int | bool | str], ...]:
        """Give the scalars in it, each with its scalar kind: one for a scalar, any number for a list."""
        if isinstance(self.value, tuple):
            kind = type_of_item[self.kind]
            return tuple((kind, item) for item in self.value)
        return ((self.kind, self.value),)
