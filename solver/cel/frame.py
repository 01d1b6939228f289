"""
The evaluation's frame, the compiler's state (`Compiler`), and running on an empty stack.

A frame is a list of slots: the meter, the device, the values read of it, and the variables of the expression. The rules
of compilation are in `compile`, `calls`, `field_access` and `loops`.
"""

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from solver.cel import tree
from solver.cel.check import Checked
from solver.cel.errors import EvaluationError
from solver.cel.meter import Meter
from solver.cel.reads import Domain, Read, Reads, attribute_maps, capacity_maps, domain_of
from solver.cel.values import DomainMap, Optional, Value, type_name
from solver.domain import Allowance, Device

Frame = list[Any]
Closure = Callable[[Frame], Value]

METER: Final = 0
DEVICE: Final = 1
DRIVER: Final = 2
ALLOW_MULTIPLE: Final = 3
FIRST_FREE: Final = 4

UNSET: Final = object()
"""The value of a cel.bind() variable before its first use."""


class DeviceMaps:
    """The maps of `device`, made at the first access to a whole map."""

    __slots__ = ("_attributes", "_capacity", "_device", "_driver")

    def __init__(self, driver: str, device: Device) -> None:
        self._driver = driver
        self._device = device
        self._attributes: DomainMap | None = None
        self._capacity: DomainMap | None = None

    def attributes(self) -> DomainMap:
        """Return `device.attributes`."""
        if self._attributes is None:
            self._attributes = attribute_maps(self._driver, self._device)
        return self._attributes

    def capacity(self) -> DomainMap:
        """Return `device.capacity`."""
        if self._capacity is None:
            self._capacity = capacity_maps(self._driver, self._device)
        return self._capacity

    def whole(self) -> dict[str, Value]:
        """Return `device` as a map."""
        return {
            "driver": self._driver,
            "allowMultipleAllocations": self._device.allow_multiple_allocations,
            "attributes": self.attributes(),
            "capacity": self.capacity(),
        }


def constant(value: Value) -> Closure:
    """Make a closure for a constant."""
    return lambda _frame: value


def not_a_bool(value: Value) -> EvaluationError:
    """Make the error for a condition that is not a bool."""
    return EvaluationError("a {} is not a condition: compare it", type_name(value))


def held(value: Value) -> Optional:
    """Return the optional, or raise EvaluationError for another type."""
    if type(value) is not Optional:
        raise EvaluationError("a {} is not an optional", type_name(value))
    return value


class Lazy(NamedTuple):
    """A variable of cel.bind(): its slot, and the closure that makes its value at the first use."""

    slot: int
    make: Closure


Meaning = int | Lazy | Domain
"""The meaning of a name: a slot of the frame, a cel.bind() variable, or the map of one domain."""


_UNITS_OF_CONSTANTS: Final = 10_000
_UNITS_OF_PATTERNS: Final = 100_000
_BYTES_OF_UNIT: Final = 200


class Compiler:
    """
    The state of one compilation.

    `scope` has the meanings of visible names, `known` the values of constant nodes. `constants` limits evaluation at
    compile time, `patterns` the compiling of regular expressions.
    """

    def __init__(self, checked: Checked, rules: "Rules") -> None:
        self.checked = checked
        self._rules = rules
        self.reads = Reads()
        self.size = FIRST_FREE
        self.is_metered = False
        self.known: dict[tree.AstNode, Value] = {}
        self.scope: list[tuple[str, Meaning]] = []
        self.constants = Allowance(_UNITS_OF_CONSTANTS)
        self.patterns = Meter(Allowance(_UNITS_OF_PATTERNS))

    @property
    def constants_bytes(self) -> int:
        """An upper bound of the bytes of the constants that were evaluated."""
        return self.constants.spent * _BYTES_OF_UNIT

    def compile(self, node: tree.AstNode) -> Closure:
        """Make the closure of a subtree."""
        if node in self.checked.constants:
            return constant(self.checked.constants[node])
        return self._rules[type(node)](self, node)

    def allocate(self) -> int:
        """Allocate a slot of the frame."""
        self.size += 1
        return self.size - 1

    def in_scope(self, name: str, meaning: Meaning, node: tree.AstNode) -> Closure:
        """Compile a node with one more name in scope."""
        self.scope.append((name, meaning))
        made = self.compile(node)
        self.scope.pop()
        return made

    def slot_of(self, read: Read) -> int:
        """Return the slot of a value that is read of the device."""
        if not read.domain:
            self.reads.reads_driver = True
        if read not in self.reads.slots:
            self.reads.slots[read] = self.allocate()
        return self.reads.slots[read]

    def meaning(self, name: str) -> Meaning | None:
        """Return the meaning of a name; None for `device`, and for `.device`, which no variable hides."""
        return next((meaning for known, meaning in reversed(self.scope) if known == name), None)

    def domain_of(self, node: tree.AstNode) -> Domain | None:
        """Recognise the map of one domain, also through a cel.bind() variable."""
        if isinstance(node, tree.Ident):
            meaning = self.meaning(node.name)
            return meaning if isinstance(meaning, Domain) else None
        return None if self.meaning("device") is not None else domain_of(node)


Rule = Callable[[Compiler, Any], Closure]
"""Makes the closure of a node; `Rules` has one rule per node type."""

Rules = Mapping[type[tree.AstNode], Rule]


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def with_room(run: Callable[[], Result]) -> Result:
    """
    Run a function; after a RecursionError run it once more on an empty stack.

    A second RecursionError does not depend on the caller's stack, so callers may cache it. `run` must tolerate a second
    call.
    """
    try:
        return run()
    except RecursionError:
        pass  # the stack is unwound before the second try
    return on_empty_stack(run)


def on_empty_stack(run: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run a function on the empty stack of a new thread; return its result or raise its exception."""
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
