"""
The one door to CEL: a selector's text in, a decision per device out.

A result is remembered by what the expression reads of the device, so that a fleet of equal devices costs one
evaluation per kind and not per device. Everything behind this door (`feasibility.cel`) is nobody else's business.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import msgspec

from solver.domain import Device
from solver.feasibility.cel.check import check
from solver.feasibility.cel.compile import Program, compile_tree
from solver.feasibility.cel.errors import CostExceeded, EvaluationError, ExpressionError, Position
from solver.feasibility.cel.frame import ALLOW_MULTIPLE, DEVICE, DRIVER, METER, DeviceMaps
from solver.feasibility.cel.meter import Meter
from solver.feasibility.cel.parse import parse
from solver.feasibility.cel.reads import published_value
from solver.feasibility.cel.values import type_name

_MOST_SELECTORS: Final = 2048
_MOST_RESULTS: Final = 8192

SelectorError = ExpressionError
"""An expression that does not compile: a ValueError with `.position` and a message that says what to write instead."""


class EvaluationStopped(Exception):  # noqa: N818 - it is no error: the budget ended
    """An evaluation was stopped because its budget ended; nothing is known of its result."""


@dataclass(slots=True, eq=False)
class EvaluationBudget:
    """What evaluations may use: units (about microseconds) left, and whether the time is up."""

    units: int
    should_stop: Callable[[], bool]

    def spend(self, units: int) -> None:
        """Pay before the work; raise `EvaluationStopped` where that is too much."""
        self.units -= units
        if self.units < 0 or self.should_stop():
            raise EvaluationStopped


class SelectorFailure(msgspec.Struct, frozen=True):
    """An expression failed on a device, which it therefore does not select; `message` says why."""

    message: str


class Selector:
    """A compiled expression (CELDeviceSelector)."""

    def __init__(self, expression: str, program: Program | None = None) -> None:
        """Compile it, unless that was done; SelectorError with the position of what is wrong."""
        self.expression = expression
        self._program: Program = program or _compiled(expression)
        self._results: dict[Any, bool | SelectorFailure] = {}
        self._lookups: dict[str, tuple[_Lookup, ...]] = {}

    def evaluate(
        self,
        driver: str,
        device: Device,
        attributes: Mapping[str, Any] | None = None,
        budget: EvaluationBudget | None = None,
    ) -> bool | SelectorFailure:
        """
        Decide whether it selects a device of a driver; raises nothing but `EvaluationStopped`, with a budget.

        `attributes` are the device's by name, for who asks several selectors about it. Known results cost nothing.
        """
        values = self._published(driver, device, dict(device.attributes) if attributes is None else attributes)
        key = self._key(driver, device, values)
        result = self._results.get(key)
        if result is None:
            if budget is not None:
                budget.spend(len(self.expression))
            result = self._run(driver, device, values)
            if len(self._results) >= _MOST_RESULTS:
                self._results.clear()
            self._results[key] = result
        return result

    def _published(self, driver: str, device: Device, attributes: Mapping[str, Any]) -> list[Any]:
        """Fetch what the expression reads, as the device publishes it; None for what it does not publish."""
        lookups = self._lookups.get(driver)
        if lookups is None:
            lookups = self._lookups[driver] = _lookups(self._program, driver)
        values: list[Any] = []
        for is_capacity, qualified, bare in lookups:
            if is_capacity:
                values.append(_capacity(device, qualified, bare))
            else:
                value = attributes.get(qualified)
                values.append(attributes.get(bare) if value is None and bare else value)
        return values

    def _key(self, driver: str, device: Device, values: list[Any]) -> Any:
        reads = self._program.reads
        if reads.reads_maps:
            capacities = tuple((name, capacity.value) for name, capacity in device.capacities)
            return (driver, device.allow_multiple_allocations, device.attributes, capacities)
        if reads.reads_driver:
            values = [*values, driver]
        if reads.reads_allow_multiple:
            values = [*values, device.allow_multiple_allocations]
        return tuple(values)

    def _run(self, driver: str, device: Device, values: list[Any]) -> bool | SelectorFailure:
        try:
            result = self._program.run(self._frame(driver, device, values))
        except (EvaluationError, CostExceeded) as error:
            return SelectorFailure(str(error))
        except RecursionError:
            return SelectorFailure("the values that the expression makes are nested too deep")
        except Exception as error:  # noqa: BLE001 - a user's expression must not stop the others, whatever we got wrong
            return SelectorFailure(f"internal error: {type(error).__name__}: {error}")
        if result is True or result is False:
            return bool(result)
        return SelectorFailure(f"a selector is true or false, and this one gives a {type_name(result)}: compare it")

    def _frame(self, driver: str, device: Device, values: list[Any]) -> list[Any]:
        program = self._program
        frame: list[Any] = [None] * program.size
        frame[METER] = Meter() if program.is_metered else None
        frame[DEVICE] = DeviceMaps(driver, device) if program.reads.reads_maps else None
        frame[DRIVER] = driver
        frame[ALLOW_MULTIPLE] = device.allow_multiple_allocations
        for slot, value in zip(program.reads.slots.values(), values, strict=True):
            frame[slot] = published_value(value)
        return frame


_Lookup = tuple[bool, str, str]
"""Whether it is a capacity, its qualified name, and the bare name where the domain is the driver's own."""


def _lookups(program: Program, driver: str) -> tuple[_Lookup, ...]:
    return tuple(
        (read.is_capacity, f"{read.domain or driver}/{read.name}", read.name if read.domain in {"", driver} else "")
        for read in program.reads.slots
    )


def _capacity(device: Device, qualified: str, bare: str) -> Any:
    """Fetch a capacity: there are few of them, so that going through them is the quickest."""
    found = None
    for name, capacity in device.capacities:
        if name == qualified:
            return capacity.value
        if name == bare:
            found = capacity.value
    return found


def _compiled(expression: str) -> Program:
    try:
        return compile_tree(check(parse(expression)))
    except RecursionError:
        raise SelectorError("the expression is nested too deep", Position(1, 1)) from None


_selectors: OrderedDict[str, Selector] = OrderedDict()
_lock: Final = Lock()


def compile_selector(expression: str) -> Selector:
    """
    Compile an expression, or take it from the selectors compiled last.

    Raises SelectorError, whose `position` is line and column and whose message says what to write instead.
    """
    with _lock:
        selector = _selectors.get(expression)
        if selector is not None:
            _selectors.move_to_end(expression)
            return selector
    selector = Selector(expression)
    with _lock:
        _selectors[expression] = selector
        if len(_selectors) > _MOST_SELECTORS:
            _selectors.popitem(last=False)
    return selector
