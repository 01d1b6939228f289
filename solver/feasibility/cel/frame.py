"""The evaluation's frame, and what all parts of the compiler share."""

from collections.abc import Callable
from typing import Any, Final

from solver.domain import Device
from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.reads import attribute_maps, capacity_maps
from solver.feasibility.cel.values import DomainMap, Optional, Value, type_name

Frame = list[Any]
Closure = Callable[[Frame], Value]

METER: Final = 0
DEVICE: Final = 1
DRIVER: Final = 2
ALLOW_MULTIPLE: Final = 3
FIRST_FREE: Final = 4

UNSET: Final = object()
"""What stands in the place of a variable that is made when it is first used."""


class DeviceMaps:
    """The maps of `device`, made when an expression first asks for them whole."""

    __slots__ = ("_attributes", "_capacity", "_device", "_driver")

    def __init__(self, driver: str, device: Device) -> None:
        self._driver = driver
        self._device = device
        self._attributes: DomainMap | None = None
        self._capacity: DomainMap | None = None

    def attributes(self) -> DomainMap:
        """Give `device.attributes`."""
        if self._attributes is None:
            self._attributes = attribute_maps(self._driver, self._device)
        return self._attributes

    def capacity(self) -> DomainMap:
        """Give `device.capacity`."""
        if self._capacity is None:
            self._capacity = capacity_maps(self._driver, self._device)
        return self._capacity

    def whole(self) -> dict[str, Value]:
        """Give `device` itself, as the map that it is at run time."""
        return {
            "driver": self._driver,
            "allowMultipleAllocations": self._device.allow_multiple_allocations,
            "attributes": self.attributes(),
            "capacity": self.capacity(),
        }


def constant(value: Value) -> Closure:
    """Make a closure that gives a constant."""
    return lambda _frame: value


def not_a_bool(value: Value) -> EvaluationError:
    """Say that a condition is none."""
    return EvaluationError("a {} is no condition: compare it", type_name(value))


def held(value: Value) -> Optional:
    """Give an optional, or say that it is none."""
    if type(value) is not Optional:
        raise EvaluationError("a {} is no optional", type_name(value))
    return value
