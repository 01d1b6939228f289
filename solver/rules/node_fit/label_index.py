"""
An index of objects (nodes, volumes) by label: evaluates a selector on all of them at once.

A set of objects is an integer (`Bits`): bit n stands for object n. A requirement costs a lookup per value that it names
and a few operations on such integers. So the cost of a selector grows with its length, hardly with the objects.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from solver.domain import (
    LabelSelector,
    LabelSelectorOperator,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    label_selectors,
)

Bits = int
_FEW: Final = 16
"""Sets of at most this size are built bit by bit; larger ones are cached."""
_NAME: Final = "metadata.name"
"""The only field that node selectors know."""


def bits_of(positions: Collection[int], count: int) -> Bits:
    """Return the set of positions, of `count` objects."""
    if len(positions) <= _FEW:
        return sum(1 << position for position in positions)
    return _bits_at(np.fromiter(positions, np.int64, len(positions)), count)


def _bits_at(positions: npt.NDArray[np.int64], count: int) -> Bits:
    mask = np.zeros(count, dtype=np.bool_)
    mask[positions] = True
    return bits_of_mask(mask)


def bits_of_mask(mask: npt.NDArray[np.bool_]) -> Bits:
    """Return the set of a mask."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def mask_of(bits: Bits, count: int) -> npt.NDArray[np.bool_]:
    """Return the mask of a set, of `count` objects."""
    packed = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little").astype(np.bool_)


def positions_of(bits: Bits, count: int) -> list[int]:
    """List the positions of a set, of `count` objects, in order."""
    found: list[int] = np.flatnonzero(mask_of(bits, count)).tolist()
    return found


@dataclass(slots=True, eq=False)
class _Column:
    """The objects with one label, by value; `_numbers` are the integer values in order, `_owners` their objects."""

    count: int
    owners_of: dict[str, list[int]]
    with_it: Bits
    _common: dict[str, Bits] = field(default_factory=dict)
    _numbers: list[int] | None = None
    _owners: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, values: Iterable[tuple[int, str]], count: int) -> "_Column":
        """Sort objects by value."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for position, value in values:
            found[value].append(position)
        positions_with_it = [position for positions in found.values() for position in positions]
        return cls(count, dict(found), bits_of(positions_with_it, count))

    def among(self, values: Iterable[str]) -> Bits:
        """Return the objects with one of some values."""
        found = 0
        for value in values:
            owners = self.owners_of.get(value, ())
            if len(owners) <= _FEW:
                for position in owners:
                    found |= 1 << position
            else:
                found |= self._with_common(value, owners)
        return found

    def _with_common(self, value: str, owners: Collection[int]) -> Bits:
        if value not in self._common:
            self._common[value] = bits_of(owners, self.count)
        return self._common[value]

    def compared(self, requirement: NodeSelectorRequirement) -> Bits:
        """Return the objects whose value is an integer above (Gt) or below (Lt) that of a requirement."""
        bound = label_selectors.integer(requirement.values[0]) if len(requirement.values) == 1 else None
        if bound is None:
            return 0
        numbers = self._sorted()
        if requirement.operator == NodeSelectorOperator.GT:
            return _bits_at(self._owners[bisect_right(numbers, bound) :], self.count)
        return _bits_at(self._owners[: bisect_left(numbers, bound)], self.count)

    def _sorted(self) -> list[int]:
        if self._numbers is None:
            read = ((label_selectors.integer(value), owners) for value, owners in self.owners_of.items())
            found = sorted((number, each) for number, owners in read if number is not None for each in owners)
            self._numbers = [number for number, _ in found]
            self._owners = np.array([each for _, each in found], dtype=np.int64)
        return self._numbers


_NO_VALUES = _Column(0, {}, 0)


@dataclass(slots=True, eq=False)
class LabelIndex:
    """Objects by label and value; a label is indexed at its first use, and only if some object has it."""

    labels: Sequence[Mapping[str, str]]
    names: Sequence[str] = ()
    """Names of nodes, for the field `metadata.name`."""
    everything: Bits = field(init=False)
    _keys: frozenset[str] = field(init=False)
    _columns: dict[str, _Column] = field(default_factory=dict)
    _by_name: _Column | None = None

    def __post_init__(self) -> None:
        self.everything = (1 << len(self.labels)) - 1
        self._keys = frozenset[str]().union(*self.labels)

    def selected(self, selector: LabelSelector) -> Bits:
        """Return the objects that a label selector selects (`LabelSelector.matches`)."""
        found = self.everything
        for each in selector.requirements:
            if not found:
                break
            found &= self._meeting(self._column(each.key), each.operator, each.values)
        return found

    def matching(self, selector: NodeSelector) -> Bits:
        """Return the nodes that a node selector matches (`affinity.matches`)."""
        found = 0
        for term in selector.terms:
            found |= self.matching_term(term)
            if found == self.everything:
                break
        return found

    def matching_term(self, term: NodeSelectorTerm) -> Bits:
        """Return the nodes for which every requirement of a term holds (`affinity.matches_term`)."""
        found = self.everything if term.match_fields or term.match_expressions else 0
        for each in term.match_fields:
            found &= self._holding(self._field(each.key), each)
        for each in term.match_expressions:
            if not found:
                break
            found &= self._holding(self._column(each.key), each)
        return found

    def with_value(self, key: str, value: str) -> Bits:
        """Return the objects whose label has a value."""
        return self._column(key).among((value,))

    def named(self, names: Collection[str]) -> Bits:
        """Return the nodes with one of these names."""
        return self._field(_NAME).among(names)

    def _holding(self, column: _Column, each: NodeSelectorRequirement) -> Bits:
        if each.operator in (NodeSelectorOperator.GT, NodeSelectorOperator.LT):
            return column.compared(each)
        return self._meeting(column, each.operator, each.values)

    def _meeting(self, column: _Column, operator: str, values: Collection[str]) -> Bits:
        """Return the objects that meet an operator that label and node selectors share (`is_met`)."""
        match operator:
            case LabelSelectorOperator.IN:
                return column.among(values)
            case LabelSelectorOperator.NOT_IN:
                return self.everything & ~column.among(values)
            case LabelSelectorOperator.EXISTS:
                return column.with_it
            case LabelSelectorOperator.DOES_NOT_EXIST:
                return self.everything & ~column.with_it
            case _:
                return 0

    def _column(self, key: str) -> _Column:
        if key not in self._keys:
            return _NO_VALUES
        if key not in self._columns:
            values = ((position, each[key]) for position, each in enumerate(self.labels) if key in each)
            self._columns[key] = _Column.of(values, len(self.labels))
        return self._columns[key]

    def _field(self, key: str) -> _Column:
        if key != _NAME:
            return _NO_VALUES
        if self._by_name is None:
            self._by_name = _Column.of(enumerate(self.names), len(self.labels))
        return self._by_name
