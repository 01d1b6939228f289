"""What the rules of compilation work with: places in the frame, names in sight, what is read of the device."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from solver.feasibility.cel import tree
from solver.feasibility.cel.check import Checked
from solver.feasibility.cel.frame import FIRST_FREE, Closure, constant
from solver.feasibility.cel.meter import EvaluationBudget, Meter
from solver.feasibility.cel.reads import Domain, Read, Reads, domain_of
from solver.feasibility.cel.values import Value


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
        self.known: dict[tree.Node, Value] = {}
        self.scope: list[tuple[str, Meaning]] = []
        self.constants = EvaluationBudget(_UNITS_OF_CONSTANTS)
        self.patterns = Meter(EvaluationBudget(_UNITS_OF_PATTERNS))

    @property
    def constants_bytes(self) -> int:
        """Bound what the values that were evaluated already take, in bytes."""
        return (_UNITS_OF_CONSTANTS - self.constants.units) * _BYTES_OF_UNIT

    def compile(self, node: tree.Node) -> Closure:
        """Make the closure of a node and of all below it."""
        if node in self.checked.constants:
            return constant(self.checked.constants[node])
        return self._rules[type(node)](self, node)

    def allocate(self) -> int:
        """Give a free place in the frame."""
        self.size += 1
        return self.size - 1

    def in_scope(self, name: str, meaning: Meaning, node: tree.Node) -> Closure:
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

    def domain_of(self, node: tree.Node) -> Domain | None:
        """Recognise one domain's map, also by the name that cel.bind() gave it."""
        if isinstance(node, tree.Ident):
            meaning = self.meaning(node.name)
            return meaning if isinstance(meaning, Domain) else None
        return None if self.meaning("device") is not None else domain_of(node)


Rule = Callable[[Compiler, Any], Closure]
"""Makes the closure of one kind of node; the node's type is the key that it is found by."""

Rules = Mapping[type[tree.Node], Rule]
