"""
CEL selectors: compile an expression, and decide per device whether it selects it (the door to `solver.cel`).

A result is cached by the values that the expression reads of the device. So a fleet of equal devices costs one
evaluation per kind of device. Selectors and results of a process are cached with a limit in bytes; in a flood of new
ones, entries in use stay (`GenerationalCache`).
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from solver.cel import errors
from solver.cel.cache import GenerationalCache
from solver.cel.compile import Program, compile_expression, compile_value
from solver.cel.errors import CostExceeded, EvaluationError
from solver.cel.frame import ALLOW_MULTIPLE, DEVICE, DRIVER, METER, Closure, DeviceMaps, Frame, on_empty_stack
from solver.cel.meter import Meter
from solver.cel.parse import MAX_LENGTH as LONGEST_EXPRESSION
from solver.cel.reads import published_value
from solver.cel.values import Semver, type_name
from solver.domain import Allowance, AllowanceSpentError, AttributeKind, AttributeValue, Device, SubRequest

_SELECTORS_BYTES: Final = 64 << 20
_RESULTS_BYTES: Final = 64 << 20

_SELECTOR_BYTES: Final = 2000
_RESULT_BYTES: Final = 300
_VALUE_BYTES: Final = 150
_LARGEST_CHARACTER: Final = 4
_MOST_DRIVERS: Final = 16
_UNITS_PER_CHARACTER: Final = 20  # of compiling

SelectorError = errors.ExpressionError
"""An expression that does not compile: a ValueError with `.position` and a message that says what to write instead."""


class SelectorFailure(msgspec.Struct, frozen=True):
    """An expression failed on a device, and so does not select it; `message` says why."""

    message: str


class Selector:
    """A compiled expression (CELDeviceSelector); results that are no bool are failures."""

    def __init__(self, expression: str, program: Program | None = None) -> None:
        """Compile the expression unless a program is given; SelectorError has the position."""
        self.expression = expression
        self._program: Program = program or compile_expression(expression)
        self._number = next(_numbers)
        self._lookups: dict[str, tuple[_Lookup, ...]] = {}

    @property
    def bytes(self) -> int:
        """The estimated bytes of its program."""
        return self._program.bytes

    @property
    def reads_device(self) -> bool:
        """Whether results of devices of one driver may differ."""
        reads = self._program.reads
        return bool(reads.slots) or reads.reads_maps or reads.reads_allow_multiple

    def evaluate(
        self,
        driver: str,
        device: Device,
        attributes: Mapping[str, Any] | None = None,
        allowance: Allowance | None = None,
    ) -> bool | SelectorFailure:
        """
        Decide whether it selects a device of a driver.

        `attributes` are the device's attributes by name, for callers with several selectors. An evaluation without
        cached result is paid for from the allowance. Raises only AllowanceSpentError (and MemoryError).
        """
        result = self._result(driver, device, attributes, allowance)
        return True if isinstance(result, AttributeValue) else result

    def _result(
        self,
        driver: str,
        device: Device,
        attributes: Mapping[str, Any] | None = None,
        allowance: Allowance | None = None,
    ) -> "_Result":
        """Return the result from the cache, or evaluate."""
        values = self._published(driver, device, dict(device.attributes) if attributes is None else attributes)
        key = self._key(driver, device, values)
        result = _results.young.get(key)
        if result is None:
            result = _results.get(key)
        if result is None:
            if allowance is not None:
                allowance.spend(self._program.nodes)
            result = self._run(driver, device, values, allowance)
            _results.put(key, result)
        return result

    def _published(self, driver: str, device: Device, attributes: Mapping[str, Any]) -> list[Any]:
        """Return the selector's number and the values that it reads; None for a value that is not published."""
        lookups = self._lookups.get(driver)
        if lookups is None:
            if len(self._lookups) >= _MOST_DRIVERS:
                self._lookups = {}
            lookups = self._lookups[driver] = _lookups(self._program, driver)
        values: list[Any] = [self._number]
        for is_capacity, qualified, bare in lookups:
            if is_capacity:
                values.append(_capacity(device, qualified, bare))
            else:
                value = attributes.get(qualified)
                values.append(attributes.get(bare) if value is None and bare else value)
        return values

    def _key(self, driver: str, device: Device, values: list[Any]) -> tuple[Any, ...]:
        reads = self._program.reads
        if reads.reads_maps:
            capacities = tuple((name, capacity.value) for name, capacity in device.capacities)
            return (self._number, driver, device.allow_multiple_allocations, device.attributes, capacities)
        if reads.reads_driver:
            values = [*values, driver]
        if reads.reads_allow_multiple:
            values = [*values, device.allow_multiple_allocations]
        return tuple(values)

    def _run(
        self,
        driver: str,
        device: Device,
        values: list[Any],
        allowance: Allowance | None,
        run_program: Callable[[Closure, Frame], Any] | None = None,
    ) -> "_Result":
        left = allowance.left if allowance is not None else 0
        frame: Frame = []
        try:
            frame = self._frame(driver, device, values, allowance)
            run = self._program.run
            result = run(frame) if run_program is None else run_program(run, frame)
        except (EvaluationError, CostExceeded) as error:
            return SelectorFailure(str(error))
        except (AllowanceSpentError, MemoryError):
            raise
        except RecursionError:
            if run_program is not None:
                return SelectorFailure("the values that the expression makes are nested too deep")
            frame = []
        except Exception as error:  # noqa: BLE001 - a user's expression must not stop the others, whatever we got wrong
            return SelectorFailure(errors.shortened(f"internal error: {type(error).__name__}: {error}"))
        else:
            return self._answer(result)
        finally:
            if allowance is not None and frame and frame[METER] is not None:
                frame[METER].settle()
        if allowance is not None:
            allowance.charge(allowance.left - left)  # the first attempt depends on the caller's stack, so it is free
        return self._run(driver, device, values, allowance, on_empty_stack)

    def _answer(self, result: Any) -> "_Result":
        if result is True or result is False:
            return bool(result)
        return SelectorFailure(f"a selector is true or false, and this one gives a {type_name(result)}: compare it")

    def _frame(self, driver: str, device: Device, values: list[Any], allowance: Allowance | None) -> list[Any]:
        program = self._program
        frame: list[Any] = [None] * program.size
        frame[METER] = Meter(allowance) if program.is_metered else None
        frame[DEVICE] = DeviceMaps(driver, device) if program.reads.reads_maps else None
        frame[DRIVER] = driver
        frame[ALLOW_MULTIPLE] = device.allow_multiple_allocations
        published = iter(values)
        next(published)  # the number
        for slot, value in zip(program.reads.slots.values(), published, strict=True):
            frame[slot] = published_value(value)
        return frame


class DerivedExpression(Selector):
    """
    A compiled expression of a derived attribute (DeviceDerivedAttribute).

    As a selector it is true for every device that it has a value for: with a request's selectors it keeps others out.
    """

    def value(self, driver: str, device: Device) -> AttributeValue | None:
        """Return the attribute of a device; None where the expression fails."""
        result = self._result(driver, device)
        return result if type(result) is AttributeValue else None

    def _answer(self, result: Any) -> "_Result":
        kind = _KINDS.get(type(result))
        if kind is not None:
            return AttributeValue(kind[0], _published_form(result))
        items = result if type(result) is list else []
        kinds = {_KINDS.get(type(each)) for each in items}
        found = kinds.pop() if len(kinds) == 1 else None
        if found is not None:
            return AttributeValue(found[1], tuple(map(_published_form, items)))
        message = f"a derived attribute is a string, int, bool, semver or a list of them, not {type_name(result)}"
        return SelectorFailure(message)


_Result = bool | SelectorFailure | AttributeValue
_KINDS: Final[dict[type | None, tuple[AttributeKind, AttributeKind]]] = {
    bool: (AttributeKind.BOOL, AttributeKind.BOOLS),
    int: (AttributeKind.INT, AttributeKind.INTS),
    str: (AttributeKind.STRING, AttributeKind.STRINGS),
    Semver: (AttributeKind.VERSION, AttributeKind.VERSIONS),
}


def _published_form(value: Any) -> bool | int | str:
    """Return a CEL value as drivers publish it: versions as text."""
    published: bool | int | str = value.text if type(value) is Semver else value
    return published


class DerivedSource(msgspec.Struct, frozen=True):
    """The text of a derived attribute's expression, among the texts of selectors; equal names share it."""

    expression: str

    def __len__(self) -> int:
        """Count its characters."""
        return len(self.expression)


Source = str | DerivedSource
"""What is compiled: the text of a selector, or of a derived attribute."""

_Lookup = tuple[bool, str, str]
"""Whether it is a capacity, its qualified name, and the bare name if the domain is the driver's."""


def _lookups(program: Program, driver: str) -> tuple[_Lookup, ...]:
    return tuple(
        (read.is_capacity, f"{read.domain or driver}/{read.name}", read.name if read.domain in {"", driver} else "")
        for read in program.reads.slots
    )


def _capacity(device: Device, qualified: str, bare: str) -> Any:
    """Look up a capacity; a loop is fastest, because devices have few."""
    found = None
    for name, capacity in device.capacities:
        if name == qualified:
            return capacity.value
        if name == bare:
            found = capacity.value
    return found


def _result_bytes(key: tuple[Any, ...], result: _Result) -> int:
    """Return an upper bound of the bytes of a result and its key."""
    size = _RESULT_BYTES + len(key) * _VALUE_BYTES
    for part in key:
        if type(part) is AttributeValue:
            value = part.value
            if type(value) is str:
                size += _LARGEST_CHARACTER * len(value)
            elif type(value) is tuple:
                size += _bytes_of(value)
        elif type(part) is tuple:
            size += sum(_bytes_of(name) + _bytes_of(value) for name, value in part)
    if type(result) is SelectorFailure:
        return size + _bytes_of(result.message)
    return size + (_bytes_of(result) if type(result) is AttributeValue else 0)


def _bytes_of(value: object) -> int:
    if type(value) is AttributeValue:
        return _bytes_of(value.value)
    if type(value) is tuple:
        return sum(map(_bytes_of, value))
    return _VALUE_BYTES + (_LARGEST_CHARACTER * len(value) if type(value) is str else 0)


def _selector_bytes(source: Source, made: "Selector | SelectorError") -> int:
    size = _SELECTOR_BYTES + _LARGEST_CHARACTER * len(source)
    return size + (made.bytes if isinstance(made, Selector) else _LARGEST_CHARACTER * len(made.message))


_numbers: Final = count()
_results: Final[GenerationalCache[tuple[Any, ...], _Result]] = GenerationalCache(_RESULTS_BYTES, _result_bytes)
_selectors: Final[GenerationalCache[Source, Selector | SelectorError]] = GenerationalCache(
    _SELECTORS_BYTES, _selector_bytes
)


def of_request(request: SubRequest) -> tuple[Source, ...]:
    """Return the selectors of a request, and behind them its derived attributes, which need a value of each device."""
    return (*request.selectors, *(DerivedSource(each.expression) for each in request.derived_attributes))


def compile_selector(source: Source, allowance: Allowance | None = None) -> Selector:
    """
    Compile a selector or a derived attribute, or take it from the cache; the allowance pays for compiling.

    Raises SelectorError (its `position` is line and column, its message says what to write instead), and
    AllowanceSpentError if the allowance does not suffice.
    """
    selector = _selectors.get(source)
    if selector is None:
        if allowance is not None:
            allowance.spend(_UNITS_PER_CHARACTER * min(len(source), LONGEST_EXPRESSION))
        try:
            if isinstance(source, str):
                selector = Selector(source)
            else:
                selector = DerivedExpression(source.expression, compile_value(source.expression))
        except SelectorError as error:
            selector = SelectorError(error.message, error.position)  # without traceback, which holds frames
        if len(source) <= LONGEST_EXPRESSION:
            _selectors.put(source, selector)
    if isinstance(selector, SelectorError):
        raise SelectorError(selector.message, selector.position)
    return selector


def compile_derived(expression: str) -> DerivedExpression:
    """Compile the expression of a derived attribute, or take it from the cache; as `compile_selector`."""
    found = compile_selector(DerivedSource(expression))
    if not isinstance(found, DerivedExpression):
        raise TypeError(f"no derived attribute: {expression}")
    return found
