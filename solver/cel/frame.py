"""The evaluation's frame, and what all parts of the compiler share.

What the rules of compilation work with: places in the frame, names in sight, what is read of the device.

Running what recurses over an expression independently of how deep its caller stands.
"""

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from solver.cel import tree
from solver.cel.check import Checked
from solver.cel.errors import EvaluationError
from solver.cel.meter import EvaluationBudget, Meter
from solver.cel.reads import Domain, Read, Reads, attribute_maps, capacity_maps, domain_of
from solver.cel.values import DomainMap, Optional, Value, type_name
from solver.domain import Device

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


class Lazy(NamedTuple):
    """A variable of cel.bind(): its place in the frame, and how its value is made on first use."""

    slot: int
    make: Closure


Meaning = int | Lazy | Domain
"""What a name stands for: a place in the frame, a value yet to be made, or one domain's map."""


_UNITS_OF_CONSTANTS: Final = 10_000
_UNITS_OF_PATTERNS: Final = 100_000
_BYTES_OF_UNIT: Final = 200


class Compiler:
    """
    Makes closures.

    `scope` says what the names in sight stand for, `known` what constant nodes give. `constants` bounds what is
    evaluated now, `patterns` what compiling regular expressions takes.
    """

    def __init__(self, checked: Checked, rules: "Rules") -> None:
        self.checked = checked
        self._rules = rules
        self.reads = Reads()
        self.size = FIRST_FREE
        self.is_metered = False
        self.known: dict[tree.AstNode, Value] = {}
        self.scope: list[tuple[str, Meaning]] = []
        self.constants = EvaluationBudget(_UNITS_OF_CONSTANTS)
        self.patterns = Meter(EvaluationBudget(_UNITS_OF_PATTERNS))

    @property
    def constants_bytes(self) -> int:
        """Bound what the values that were evaluated already take, in bytes."""
        return (_UNITS_OF_CONSTANTS - self.constants.units) * _BYTES_OF_UNIT

    def compile(self, node: tree.AstNode) -> Closure:
        """Make the closure of a node and of all below it."""
        if node in self.checked.constants:
            return constant(self.checked.constants[node])
        return self._rules[type(node)](self, node)

    def allocate(self) -> int:
        """Give a free place in the frame."""
        self.size += 1
        return self.size - 1

    def in_scope(self, name: str, meaning: Meaning, node: tree.AstNode) -> Closure:
        """Compile a node where a name stands for something."""
        self.scope.append((name, meaning))
        made = self.compile(node)
        self.scope.pop()
        return made

    def slot_of(self, read: Read) -> int:
        """Give the place of what is read of the device."""
        if not read.domain:
            self.reads.reads_driver = True
        if read not in self.reads.slots:
            self.reads.slots[read] = self.allocate()
        return self.reads.slots[read]

    def meaning(self, name: str) -> Meaning | None:
        """Give what a name stands for, or None for `device`."""
        return next((meaning for known, meaning in reversed(self.scope) if known == name), None)

    def domain_of(self, node: tree.AstNode) -> Domain | None:
        """Recognise one domain's map, also by the name that cel.bind() gave it."""
        if isinstance(node, tree.Ident):
            meaning = self.meaning(node.name)
            return meaning if isinstance(meaning, Domain) else None
        return None if self.meaning("device") is not None else domain_of(node)


Rule = Callable[[Compiler, Any], Closure]
"""Makes the closure of one kind of node; the node's type is the key that it is found by."""

Rules = Mapping[type[tree.AstNode], Rule]


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def with_room(run: Callable[[], Result]) -> Result:
    """
    Run a function; where the stack is too short for it, once more on an empty one.

    What is nested too deep for that (RecursionError) is so for every caller, and may be remembered. `run` must be
    free of effects that count twice.
    """
    try:
        return run()
    except RecursionError:
        pass  # the stack is unwound before the second try
    return on_empty_stack(run)


def on_empty_stack(run: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run a function on the stack of a thread of its own, and give what it gives or raise what it raises."""
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            outcome.append(run(*arguments, **named))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller, whatever it is
            errors.append(error)

    thread = Thread(target=attempt, name="deep-expression", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
