"""
Which of some pods a term of pod affinity selects: sets of pods as integers, by label and by namespace.

A set is `Bits`: bit n stands for pod n. A requirement costs a lookup for each value that it names, and an operation on
such an integer. So the cost of a term grows with its length, hardly with the pods, whatever their labels are.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from solver.domain import LabelRequirement, LabelSelector, LabelSelectorOperator, Namespace, Pod, PodAffinityTerm

Bits = int
_OF_NAMESPACE: Final = "\0"
"""Before the keys of a namespace's labels: no label of a pod has such a key."""


def label_keys(term: PodAffinityTerm) -> Iterator[str]:
    """Give the label keys, of pods and of namespaces, that a term names."""
    if term.selector is not None:
        for each in term.selector.requirements:
            yield each.key
    if term.namespace_selector is not None:
        for each in term.namespace_selector.requirements:
            yield _OF_NAMESPACE + each.key


class _Column:
    """The pods with one label key, by value; sets are made of those that are asked for."""

    __slots__ = ("_positions", "_sets")

    def __init__(self) -> None:
        self._positions: Final[dict[str, list[int]]] = {}
        self._sets: Final[dict[str | None, Bits]] = {}

    def add(self, value: str, positions: Sequence[int]) -> None:
        self._positions.setdefault(value, []).extend(positions)

    def among(self, values: Iterable[str]) -> Bits:
        """Return the pods with one of these values."""
        found = 0
        for value in values:
            if value in self._positions and value not in self._sets:
                self._sets[value] = bits_of(self._positions[value])
            found |= self._sets.get(value, 0)
        return found

    def any(self) -> Bits:
        """Return the pods with any value."""
        if None not in self._sets:
            self._sets[None] = bits_of(chain.from_iterable(self._positions.values()))
        return self._sets[None]


class SelectedPods:
    """Pods in order, and the terms that were asked about. Only the labels with `keys` are read (`label_keys`)."""

    def __init__(self, namespace: Callable[[str], Namespace | None], keys: Collection[str]) -> None:
        self._namespace: Final = namespace
        self._keys: Final = keys
        self._count = 0
        self._by_namespace: Final = _Column()
        self._columns: Final[defaultdict[str, _Column]] = defaultdict(_Column)
        self._new_namespaces: Final[dict[str, list[int]]] = {}
        """The pods of namespaces whose labels are not in the columns yet."""
        self._selected: Final[dict[PodAffinityTerm, Bits]] = {}

    @property
    def everything(self) -> Bits:
        """All pods."""
        return (1 << self._count) - 1

    def add(self, pod: Pod) -> None:
        """Add a pod behind the others, before any question."""
        here = (self._count,)
        self._count += 1
        self._by_namespace.add(pod.id.namespace, here)
        self._new_namespaces.setdefault(pod.id.namespace, []).extend(here)
        for key, value in pod.labels:
            if key in self._keys:
                self._columns[key].add(value, here)

    def selected(self, term: PodAffinityTerm) -> Bits:
        """Return the pods that a term selects, in whatever topology domain."""
        if term not in self._selected:
            self._selected[term] = self._select(term)
        return self._selected[term]

    def _read_namespaces(self) -> None:
        for name, positions in self._new_namespaces.items():
            known = self._namespace(name)
            for key, value in known.labels if known is not None else ():
                if _OF_NAMESPACE + key in self._keys:
                    self._columns[_OF_NAMESPACE + key].add(value, positions)
        self._new_namespaces.clear()

    def _select(self, term: PodAffinityTerm) -> Bits:
        found = self._meeting(term.selector, "") if term.selector is not None else 0
        if not found:
            return 0
        there = self._by_namespace.among(term.namespaces)
        if term.namespace_selector is not None:
            self._read_namespaces()
            there |= self._meeting(term.namespace_selector, _OF_NAMESPACE)
        return found & there

    def _meeting(self, selector: LabelSelector, prefix: str) -> Bits:
        found = self.everything
        for requirement in selector.requirements:
            if not found:
                break
            found &= self._holding(requirement, prefix + requirement.key)
        return found

    def _holding(self, requirement: LabelRequirement, key: str) -> Bits:
        """Return the pods that meet a requirement (`solver.domain.is_met`)."""
        column = self._columns.get(key, _EMPTY)
        match requirement.operator:
            case LabelSelectorOperator.IN:
                return column.among(requirement.values)
            case LabelSelectorOperator.NOT_IN:
                return self.everything & ~column.among(requirement.values)
            case LabelSelectorOperator.EXISTS:
                return column.any()
            case LabelSelectorOperator.DOES_NOT_EXIST:
                return self.everything & ~column.any()
            case _:
                return 0


_EMPTY: Final = _Column()


def bits_of(positions: Iterable[int]) -> Bits:
    """Return the set of some positions."""
    found = 0
    for position in positions:
        found |= 1 << position
    return found


def numbers(pods: Bits) -> Iterator[int]:
    """Give the positions in a set, the first one first."""
    while pods:
        first = pods & -pods
        yield first.bit_length() - 1
        pods ^= first
